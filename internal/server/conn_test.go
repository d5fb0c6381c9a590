package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestSlowHead(t *testing.T) {
	s := start(t, Options{ReadHeaderTimeout: 50 * time.Millisecond}, http.HandlerFunc(echo))
	for name, first := range map[string]string{"first request": "", "later request": "GET / HTTP/1.1\r\n" + host + "\r\n"} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, s)
			r := bufio.NewReader(c)
			send(t, c, first)
			if first != "" {
				answer(t, r)
			}
			send(t, c, "GET / HTTP/1.1\r\nX")
			if resp, _ := answer(t, r); resp.StatusCode != http.StatusRequestTimeout {
				t.Errorf("status %d, want 408", resp.StatusCode)
			}
			if _, err := r.ReadByte(); err != io.EOF {
				t.Errorf("connection goes on: %v", err)
			}
		})
	}
}

func TestIdleTimeout(t *testing.T) {
	s := start(t, Options{IdleTimeout: 50 * time.Millisecond}, http.HandlerFunc(echo))
	c := dial(t, s)
	r := bufio.NewReader(c)
	send(t, c, "GET / HTTP/1.1\r\n"+host+"\r\n")
	answer(t, r)
	if b, err := io.ReadAll(r); err != nil || len(b) > 0 {
		t.Errorf("got %q, %v; want a silent end", b, err)
	}
}

func TestSlowBody(t *testing.T) {
	for name, framing := range map[string]string{"length": "Content-Length: 100\r\n\r\nabc", "chunked": "Transfer-Encoding: chunked\r\n\r\n5\r\nabc"} {
		t.Run(name, func(t *testing.T) {
			failed := make(chan error, 1)
			s := start(t, Options{ReadBodyIdle: 50 * time.Millisecond}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, err := io.ReadAll(r.Body)
				failed <- err
			}))
			c := dial(t, s)
			send(t, c, "POST / HTTP/1.1\r\n"+host+framing)
			if err := <-failed; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("body read ended with %v", err)
			}
		})
	}
}

// A body that moves is not cut, however long it takes: ten pieces, each well within the limit, together well above it.
func TestSteadyBody(t *testing.T) {
	const idle = 200 * time.Millisecond
	s := start(t, Options{ReadBodyIdle: idle}, http.HandlerFunc(echo))
	c := dial(t, s)
	send(t, c, "POST /p HTTP/1.1\r\n"+host+"Content-Length: 10\r\n\r\n")
	tick := time.NewTicker(idle / 5)
	defer tick.Stop()
	for range 10 {
		<-tick.C
		send(t, c, "x")
	}
	if _, got := answer(t, bufio.NewReader(c)); got != `POST /p "xxxxxxxxxx"` {
		t.Errorf("got %q", got)
	}
}

// slowReader keeps the kernel from taking a whole body in.
func slowReader(t *testing.T, s *Server) net.Conn {
	c := dial(t, s)
	_ = c.(*net.TCPConn).SetReadBuffer(128 << 10)
	return c
}

const bulk = 8 << 20

func bulkHandlers(t *testing.T) map[string]http.HandlerFunc {
	path := filepath.Join(t.TempDir(), "bulk")
	if err := os.WriteFile(path, bulkBody(), 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string]http.HandlerFunc{
		"memory": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "8388608")
			if _, err := w.Write(bulkBody()); err != nil {
				panic(http.ErrAbortHandler)
			}
		},
		"file": func(w http.ResponseWriter, _ *http.Request) {
			f, err := os.Open(path)
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			w.Header().Set("Content-Length", "8388608")
			if _, err := io.Copy(w, f); err != nil {
				panic(http.ErrAbortHandler)
			}
		},
	}
}

func bulkBody() []byte {
	b := make([]byte, bulk)
	for i := range b {
		b[i] = byte(i * 7 >> 3)
	}
	return b
}

func TestStalledReaderIsCut(t *testing.T) {
	for name, h := range bulkHandlers(t) {
		t.Run(name, func(t *testing.T) {
			done := make(chan struct{})
			s := start(t, Options{WriteIdle: 100 * time.Millisecond}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(done)
				h(w, r)
			}))
			c := slowReader(t, s)
			send(t, c, "GET / HTTP/1.1\r\n"+host+"\r\n")
			select {
			case <-done:
			case <-time.After(patience):
				t.Fatal("a client that reads nothing holds its handler")
			}
		})
	}
}

// A file that is shorter than announced, or longer, is sent as far as it goes.
func TestFileOfAnotherSize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, bulkBody()[:300<<10], 0o600); err != nil {
		t.Fatal(err)
	}
	for name, announced := range map[string]int{"as announced": 300 << 10, "shorter": 400 << 10, "longer": 100<<10 + 1} {
		t.Run(name, func(t *testing.T) {
			s := start(t, Options{Hits: &fixedHits{}}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				f, err := os.Open(path)
				if err != nil {
					t.Error(err)
					return
				}
				defer f.Close()
				w.Header().Set("Content-Length", strconv.Itoa(announced))
				w.Header().Set("Content-Type", "a/b")
				n, err := io.CopyN(w, f, int64(announced))
				if want := int64(min(announced, 300<<10)); n != want || err != nil && err != io.EOF {
					t.Errorf("copied %d bytes, %v; want %d", n, err, want)
				}
			}))
			c := dial(t, s)
			send(t, c, "GET / HTTP/1.1\r\n"+host+"Connection: close\r\n\r\n")
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			if want := bulkBody()[:min(announced, 300<<10)]; !bytes.Equal(got, want) || (err != nil) != (announced > len(want)) {
				t.Errorf("%d bytes, %v; want %d", len(got), err, len(want))
			}
		})
	}
}

// steady readers take a body over more than twice the limit, with pauses of a tenth of it.
const (
	steadyLimit = 400 * time.Millisecond
	steadyPause = 40 * time.Millisecond
	steadyPiece = bulk / 24
)

// A client that reads steadily gets everything, although one write takes several times the limit.
func TestSteadyReaderIsNotCut(t *testing.T) {
	for name, h := range bulkHandlers(t) {
		t.Run(name, func(t *testing.T) {
			s := start(t, Options{WriteIdle: steadyLimit}, h)
			c := slowReader(t, s)
			send(t, c, "GET / HTTP/1.1\r\n"+host+"\r\n")
			resp, err := http.ReadResponse(bufio.NewReader(&paced{r: c, per: steadyPiece, pause: steadyPause}), nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			if err != nil || !bytes.Equal(got, bulkBody()) {
				t.Errorf("%d bytes, %v; want all %d as they are", len(got), err, bulk)
			}
		})
	}
}

// paced pauses after every per bytes.
type paced struct {
	r     io.Reader
	per   int
	pause time.Duration
	n     int
}

func (p *paced) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	if p.n += n; p.n >= p.per {
		p.n = 0
		<-time.After(p.pause)
	}
	return n, err
}

func TestClientGoneCancelsRequest(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	s := start(t, Options{}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
		close(ended)
	}))
	c := dial(t, s)
	send(t, c, "GET / HTTP/1.1\r\n"+host+"\r\n")
	<-began
	_ = c.Close()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("the request's context did not end")
	}
}

// Bytes behind an upgrade request belong to the new protocol, also if they came together with it.
func TestHijackWithEarlyBytes(t *testing.T) {
	s := start(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		nc, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer nc.Close()
		_, _ = io.WriteString(nc, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_, _ = io.CopyN(nc, rw, int64(len("GET / early late")))
	}))
	c := dial(t, s)
	send(t, c, "GET / HTTP/1.1\r\n"+host+"Connection: Upgrade\r\nUpgrade: echo\r\n\r\nGET / early")
	r := bufio.NewReader(c)
	if resp, err := http.ReadResponse(r, nil); err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(resp, err)
	}
	send(t, c, " late")
	if b, err := io.ReadAll(r); err != nil || string(b) != "GET / early late" {
		t.Errorf("got %q, %v", b, err)
	}
}

func TestExpectContinue(t *testing.T) {
	s := start(t, Options{}, http.HandlerFunc(echo))
	c := dial(t, s)
	r := bufio.NewReader(c)
	send(t, c, "POST /e HTTP/1.1\r\n"+host+"Content-Length: 3\r\nExpect: 100-continue\r\n\r\n")
	line, err := r.ReadString('\n')
	if err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("%q, %v", line, err)
	}
	_, _ = r.ReadString('\n')
	send(t, c, "abc")
	if _, got := answer(t, r); got != `POST /e "abc"` {
		t.Errorf("got %q", got)
	}
}

// Heads larger than any buffer, below the limit, arrive whole; the connection does not keep their buffer.
func TestLargeHead(t *testing.T) {
	s := start(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("X"))
	}))
	c := dial(t, s)
	r := bufio.NewReader(c)
	for range 2 {
		value := strings.Repeat("v", 60<<10)
		send(t, c, "GET / HTTP/1.1\r\n"+host+"X: "+value+"\r\n\r\n")
		if _, got := answer(t, r); got != value {
			t.Errorf("%d bytes came back", len(got))
		}
	}
}

func TestMaxConns(t *testing.T) {
	s := start(t, Options{MaxConns: 1}, http.HandlerFunc(echo))
	first := dial(t, s)
	send(t, first, "GET /1 HTTP/1.1\r\n"+host+"\r\n")
	answer(t, bufio.NewReader(first))
	second := dial(t, s)
	send(t, second, "GET /2 HTTP/1.1\r\n"+host+"\r\n")
	if n := s.Stats().Accepted; n != 1 {
		t.Fatalf("%d connections accepted, want 1", n)
	}
	_ = first.Close()
	if _, got := answer(t, bufio.NewReader(second)); got != `GET /2 ""` {
		t.Errorf("got %q", got)
	}
}

func TestStartBindsAllOrNone(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	_ = free.Close()
	s, err := New(Options{Listen: []string{addr, taken.Addr().String()}}, http.HandlerFunc(echo))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err == nil {
		t.Fatal("no error for a taken address")
	}
	again, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatalf("the free address stayed bound: %v", err)
	}
	_ = again.Close()
	if err := s.Drain(context.Background()); !errors.Is(err, ErrNotStarted) {
		t.Errorf("drain: %v", err)
	}
}
