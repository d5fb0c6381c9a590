package origin

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// network is a set of scripted origins by address, joined to a pool by in-memory connections, so that a synctest bubble
// can run it in fake time. A script owns its connection, which is closed when it returns.
type network map[string]func(net.Conn)

// dial is a Config.Dial. An address without a script refuses.
func (n network) dial(_ context.Context, _, addr string) (net.Conn, error) {
	script := n[addr]
	if script == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		script(far)
	}()
	return near, nil
}

// only is the network in which one script answers at origin.test:80, the address of http://192.0.2.1.
func only(script func(net.Conn)) network { return network{"192.0.2.1:80": script} }

const onlyURL = "http://192.0.2.1"

// answers makes a script that reads requests and answers each with the same bytes, then calls after, if not nil.
func answers(response string, after func(net.Conn)) func(net.Conn) {
	return func(c net.Conn) {
		br := bufio.NewReader(c)
		for {
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
			if _, err := io.WriteString(c, response); err != nil {
				return
			}
			if after != nil {
				after(c)
				return
			}
		}
	}
}

// hang blocks until the peer closes.
func hang(c net.Conn) { io.Copy(io.Discard, c) }

// counting counts the calls of a script.
func counting(n *atomic.Int64, script func(net.Conn)) func(net.Conn) {
	return func(c net.Conn) {
		n.Add(1)
		script(c)
	}
}

const ok200 = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// failedHead makes an exchange that must fail before a response head, and returns its error and how long it took.
func failedHead(t *testing.T, p *Pool, r *http.Request) (*Error, time.Duration) {
	t.Helper()
	start := time.Now()
	resp, err := roundTrip(p, r)
	if err == nil {
		resp.Body.Close()
		t.Fatalf("got status %d, want an error", resp.StatusCode)
	}
	classOf(t, err)
	return err.(*Error), time.Since(start)
}

// failedBody makes an exchange whose body must fail, and returns its error and how long the reading took.
func failedBody(t *testing.T, p *Pool, r *http.Request) (*Error, time.Duration) {
	t.Helper()
	resp, err := roundTrip(p, r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	start := time.Now()
	_, err = io.ReadAll(resp.Body)
	if err == nil {
		t.Fatal("the body ended well, want an error")
	}
	classOf(t, err)
	if _, again := resp.Body.Read(make([]byte, 1)); !errors.Is(again, err) {
		t.Errorf("the error is not sticky: %v, then %v", err, again)
	}
	return err.(*Error), time.Since(start)
}
