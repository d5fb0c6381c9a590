package origin

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// talk answers each request of a connection with what answers gives.
func talk(answers func(n int, c net.Conn) bool) func(net.Conn) {
	return func(c net.Conn) {
		br := bufio.NewReader(c)
		for n := 1; ; n++ {
			if _, err := http.ReadRequest(br); err != nil || !answers(n, c) {
				return
			}
		}
	}
}

// alwaysOK answers each request at once.
var alwaysOK = talk(func(_ int, c net.Conn) bool {
	io.WriteString(c, ok200)
	return true
})

// within begins an exchange over the connection that a first exchange left.
func within(t *testing.T, p *Pool, patience time.Duration) (*http.Response, Rest, error) {
	t.Helper()
	first, err := p.RoundTrip(inbound("GET", "/", nil))
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, first.Body)
	first.Body.Close()
	return p.RoundTripWithin(inbound("GET", "/", nil), patience)
}

func wantIdle(t *testing.T, p *Pool) {
	t.Helper()
	if s := p.Status()[0]; s.InFlight != 0 {
		t.Errorf("%d exchanges in flight, want 0", s.InFlight)
	}
}

func wantAnswer(t *testing.T, resp *http.Response, err error, body string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); string(b) != body || err != nil {
		t.Errorf("body %q, %v; want %q", b, err, body)
	}
}

// wantRest makes the rest of an exchange, which must give the usual answer.
func wantRest(t *testing.T, p *Pool, rest Rest, err error) {
	t.Helper()
	if rest == nil {
		t.Fatalf("no rest is left, error %v", err)
	}
	resp, err := rest(t.Context())
	wantAnswer(t, resp, err, "ok")
	wantIdle(t, p)
}

// TestWithinWhole: a response that comes at once needs no rest, and its connection is kept.
func TestWithinWhole(t *testing.T) {
	p, conns := plainOrigin(t, Config{}, alwaysOK)
	for range 3 {
		wantWhole(t, p)
	}
	wantIdle(t, p)
	if conns.Load() != 1 {
		t.Errorf("%d connections, want 1", conns.Load())
	}
}

// wantWhole makes an exchange that needs no rest.
func wantWhole(t *testing.T, p *Pool) {
	t.Helper()
	resp, rest, err := within(t, p, time.Minute)
	if rest != nil {
		t.Fatal("a rest is left")
	}
	wantAnswer(t, resp, err, "ok")
}

// TestWithinWithoutConnection: nothing is dialled before rest.
func TestWithinWithoutConnection(t *testing.T) {
	p, conns := plainOrigin(t, Config{}, alwaysOK)
	_, rest, _ := p.RoundTripWithin(inbound("GET", "/", nil), time.Minute)
	if rest == nil || conns.Load() != 0 {
		t.Fatalf("rest %v, %d connections", rest != nil, conns.Load())
	}
	resp, err := rest(t.Context())
	wantAnswer(t, resp, err, "ok")
	wantIdle(t, p)
}

// TestWithinRest: what is not whole in time is sent once and goes on.
func TestWithinRest(t *testing.T) {
	for name, parts := range map[string][2]string{
		"nothing yet":   {"", ok200},
		"half a head":   {"HTTP/1.1 200 OK\r\nContent-", "Length: 2\r\n\r\nok"},
		"half a body":   {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no", "k"},
		"interim":       {"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", ok200},
		"chunked":       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", "0\r\n\r\n"},
		"not so strict": {"HTTP/1.1 200 OK\nContent-Length: 2\n\n", "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			goOn := make(chan struct{})
			p, conns := plainOrigin(t, Config{}, talk(func(n int, c net.Conn) bool {
				if n == 1 {
					io.WriteString(c, ok200)
					return true
				}
				io.WriteString(c, parts[0])
				<-goOn
				io.WriteString(c, parts[1])
				return true
			}))
			_, rest, err := within(t, p, 10*time.Millisecond)
			close(goOn)
			wantRest(t, p, rest, err)
			if conns.Load() != 1 {
				t.Errorf("%d connections, want 1", conns.Load())
			}
		})
	}
}

// TestWithinClosed: a kept connection that the origin closes on the request is replaced in rest.
func TestWithinClosed(t *testing.T) {
	p, conns := plainOrigin(t, Config{}, talk(func(n int, c net.Conn) bool {
		if n == 2 {
			return false
		}
		io.WriteString(c, ok200)
		return true
	}))
	_, rest, err := within(t, p, time.Minute)
	wantRest(t, p, rest, err)
	if conns.Load() != 2 {
		t.Errorf("%d connections, want 2", conns.Load())
	}
}

// TestWithinUnsent: a kept connection stays if the time is over before anything was sent.
func TestWithinUnsent(t *testing.T) {
	p, conns := plainOrigin(t, Config{}, alwaysOK)
	_, rest, err := within(t, p, time.Nanosecond)
	wantRest(t, p, rest, err)
	if conns.Load() != 1 {
		t.Errorf("%d connections, want 1", conns.Load())
	}
}

// TestWithinBadHead: what fails at once is reported by rest, with its class.
func TestWithinBadHead(t *testing.T) {
	p, _ := plainOrigin(t, Config{}, talk(func(n int, c net.Conn) bool {
		if n == 1 {
			io.WriteString(c, ok200)
			return true
		}
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n")
		return true
	}))
	_, rest, err := within(t, p, time.Minute)
	if rest == nil {
		t.Fatalf("no rest is left, error %v", err)
	}
	_, err = rest(t.Context())
	if c := classOf(t, err); c != ClassProtocol {
		t.Errorf("class %v, want %v", c, ClassProtocol)
	}
	wantIdle(t, p)
}

// TestWithinCancelled: rest heeds its context, before the head and inside the body.
func TestWithinCancelled(t *testing.T) {
	errOver := errors.New("over")
	for name, part := range map[string]string{"head": "", "body": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no"} {
		t.Run(name, func(t *testing.T) {
			p, _ := plainOrigin(t, Config{}, talk(func(n int, c net.Conn) bool {
				if n == 1 {
					io.WriteString(c, ok200)
				} else {
					io.WriteString(c, part)
				}
				return true
			}))
			_, rest, err := within(t, p, 10*time.Millisecond)
			if rest == nil {
				t.Fatalf("no rest is left, error %v", err)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Millisecond, func() { cancel(errOver) })
			resp, err := rest(ctx)
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			if classOf(t, err) != ClassCanceled || !errors.Is(err, errOver) {
				t.Errorf("got %v, want a cancellation with its cause", err)
			}
			wantIdle(t, p)
		})
	}
}
