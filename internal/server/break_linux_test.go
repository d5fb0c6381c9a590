package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/swrproxy/swrproxy/cache"
)

func plain(target string) string { return "GET " + target + " HTTP/1.1\r\n" + host + "\r\n" }

// ranged is a GET that the loop leaves to net/http.
func ranged(target string) string {
	return "GET " + target + " HTTP/1.1\r\n" + host + "Range: bytes=0-0\r\n\r\n"
}

// faultyHits panics where the target says so.
type faultyHits struct{ fixedHits }

func (f *faultyHits) Hit(q *cache.HitRequest, a *cache.HitAnswer) bool {
	if string(q.Target) == "/fault" {
		a.Head = append(a.Head, "HTTP/1.1 200 OK\r\n"...)
		panic("hit")
	}
	return f.fixedHits.Hit(q, a)
}

func (f *faultyHits) HitSent(a *cache.HitAnswer, sent int64, whole bool) {
	if bytes.Contains(a.Head, []byte("Content-Length: 70000\r\n")) {
		panic("sent")
	}
	f.fixedHits.HitSent(a, sent, whole)
}

// A source that panics ends the connection that it answered, and nothing else.
func TestSourceFault(t *testing.T) {
	log := new(syncBuffer)
	hits := &faultyHits{fixedHits{bodies: map[string][]byte{"/h": []byte("hit"), "/sent": bulkBody()[:70000]}}}
	s := start(t, Options{Hits: hits, Logger: zerolog.New(log)}, http.HandlerFunc(echo))
	other := dial(t, s)
	r := bufio.NewReader(other)
	for _, requests := range []string{plain("/fault"), plain("/h") + plain("/fault") + plain("/h"), plain("/sent") + plain("/h")} {
		for _, first := range []string{"", "POST /p HTTP/1.1\r\n" + host + "Content-Length: 0\r\n\r\n"} { // known to net/http or not
			c := dial(t, s)
			if first != "" {
				send(t, c, first)
				answer(t, bufio.NewReader(c))
			}
			send(t, c, requests)
			if _, err := io.ReadAll(c); err != nil && !strings.Contains(err.Error(), "reset") {
				t.Errorf("%.40q: %v", requests, err)
			}
		}
		send(t, other, plain("/h"))
		if _, got := answer(t, r); got != "hit" {
			t.Fatalf("behind a fault: %q", got)
		}
	}
	_ = other.Close()
	<-s.links.empty()
	if got := log.String(); strings.Count(got, "panic serving") != 6 || !strings.Contains(got, "faultyHits") {
		t.Errorf("logged %q", got)
	}
}

// A fault while an answer is given up, on a client that has gone, is contained, too.
func TestSourceFaultOnAbandon(t *testing.T) {
	hits := &abandonHits{body: bulkBody(), told: make(chan struct{}, 1)}
	s := start(t, Options{Hits: hits}, http.HandlerFunc(echo))
	c := slowReader(t, s)
	send(t, c, plain("/big"))
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
	<-hits.told
	<-s.links.empty()
}

type abandonHits struct {
	body []byte
	told chan struct{}
}

func (a *abandonHits) Hit(_ *cache.HitRequest, h *cache.HitAnswer) bool {
	h.Head, h.Body = append(h.Head, "HTTP/1.1 200 OK\r\n\r\n"...), a.body
	return true
}

func (a *abandonHits) HitSent(*cache.HitAnswer, int64, bool) {
	a.told <- struct{}{}
	panic("abandoned")
}

// contextServer has a handler that runs until its request's context ends, and tells so; for /first, until first can be received from.
func contextServer(t *testing.T, o Options) (s *Server, first, began chan struct{}, ended chan error) {
	first, began, ended = make(chan struct{}), make(chan struct{}, 1), make(chan error, 1)
	if o.Hits == nil {
		o.Hits = &fixedHits{}
	}
	return start(t, o, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // net/http looks for the client's end only behind it
		if r.URL.Path == "/first" {
			<-first
			return
		}
		began <- struct{}{}
		select {
		case <-r.Context().Done():
			ended <- nil
		case <-time.After(patience):
			ended <- errors.New("the request's context goes on")
		}
	})), first, began, ended
}

// What is cut ends its request's context, whoever runs the handler.
func TestCutEndsContext(t *testing.T) {
	for name, request := range map[string]string{"worker": plain("/"), "net/http": ranged("/")} {
		t.Run(name, func(t *testing.T) {
			s, _, began, ended := contextServer(t, Options{DrainIdle: -1, DrainTimeout: 20 * time.Millisecond})
			send(t, dial(t, s), request)
			<-began
			err := s.Drain(context.Background())
			if cut, ok := errors.AsType[*ErrCut](err); !ok || cut.Connections != 1 {
				t.Errorf("drain: %v", err)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// A client that ends its side together with its request ends the request's context, as it does with net/http alone.
func TestEndWithRequest(t *testing.T) {
	for name, request := range map[string]string{
		"worker": plain("/"), "net/http": ranged("/"), "body": "POST / HTTP/1.1\r\n" + host + "Content-Length: 1\r\n\r\nx",
	} {
		t.Run(name, func(t *testing.T) {
			entered, goOn := make(chan struct{}), make(chan struct{})
			hits := &fixedHits{bodies: map[string][]byte{"/block": nil}, before: func() { entered <- struct{}{}; <-goOn }}
			s, _, _, ended := contextServer(t, Options{Hits: hits})
			for range s.loops { // connections go to the loops in turn
				send(t, dial(t, s), plain("/block"))
				<-entered
			}
			c := dial(t, s)
			send(t, c, request)
			_ = c.(*net.TCPConn).CloseWrite()
			close(goOn) // the loop hears of all at once
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// A client that ends its side behind two requests in one piece gets both answers.
func TestEndBehindPipelined(t *testing.T) {
	s := start(t, Options{Hits: &fixedHits{}}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/first" {
			select {
			case <-r.Context().Done():
				http.Error(w, "cancelled", http.StatusInternalServerError)
				return
			case <-time.After(50 * time.Millisecond): // time in which it must not happen
			}
		}
		_, _ = io.WriteString(w, "fine")
	}))
	if got := exchange(t, s, plain("/first")+plain("/second")); strings.Count(got, "\r\n\r\nfine") != 2 {
		t.Errorf("got %q", got)
	}
}

// A client of net/http's path that sends more, and then goes, is still noticed at the later request.
func TestGoneBehindPipelined(t *testing.T) {
	s, first, began, ended := contextServer(t, Options{})
	c := dial(t, s)
	send(t, c, ranged("/first"))
	send(t, c, ranged("/second"))
	_ = c.(*net.TCPConn).CloseWrite()
	close(first)
	<-began
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A write that fails ends the request's context.
func TestFailedWriteEndsContext(t *testing.T) {
	ended := make(chan error, 1)
	s := start(t, Options{Hits: &fixedHits{}, WriteIdle: 50 * time.Millisecond}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := w.Write(bulkBody())
		if err == nil {
			err = errors.New("all was written")
		}
		if r.Context().Err() != nil {
			err = nil
		}
		ended <- err
	}))
	send(t, slowReader(t, s), plain("/"))
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A deadline that a handler sets for its answer does not hold for the next one.
func TestWriteDeadlineIsTheRequestsOwn(t *testing.T) {
	s := start(t, Options{Hits: &fixedHits{}}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/first" {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
			_, _ = io.WriteString(w, "first")
			return
		}
		<-time.After(30 * time.Millisecond) // the deadline is over then
		_, _ = w.Write(bulkBody())
	}))
	c := dial(t, s)
	r := bufio.NewReader(c)
	send(t, c, plain("/first"))
	answer(t, r)
	send(t, c, plain("/second"))
	if _, got := answer(t, r); len(got) != bulk {
		t.Errorf("%d bytes, want %d", len(got), bulk)
	}
}

// A new connection that says nothing has the time for a head, not that between requests.
func TestSilentNewConnection(t *testing.T) {
	s := start(t, Options{Hits: &fixedHits{}, ReadHeaderTimeout: 50 * time.Millisecond, IdleTimeout: time.Hour}, http.HandlerFunc(echo))
	if b, err := io.ReadAll(dial(t, s)); err != nil || len(b) > 0 {
		t.Errorf("got %q, %v; want a silent end", b, err)
	}
}

// A loop that has more to do than fits into a few rounds goes on by itself, when no further news come.
func TestLoopGoesOn(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // one loop
	entered, goOn := make(chan struct{}), make(chan struct{})
	s := hitServer(t, Options{}, &fixedHits{bodies: map[string][]byte{"/block": nil}, before: func() { entered <- struct{}{}; <-goOn }})
	all := make([]net.Conn, 4*loopRound)
	for i := range all {
		all[i] = dial(t, s)
		send(t, all[i], "\r\n") // is read, and rests
	}
	send(t, all[0], plain("/block"))
	<-entered
	for _, c := range all {
		_ = c.Close()
	}
	close(goOn)
	select {
	case <-s.links.empty():
	case <-time.After(patience):
		t.Errorf("%d connections are left", s.links.count())
	}
}

// syncBuffer gathers log lines. Safe for concurrent use.
type syncBuffer struct {
	mu sync.Mutex // guards following
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
