package integration

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience bounds every wait for a counter; it is never reached when the proxy does what the test expects.
const patience = 20 * time.Second

// step answers one request of a script. n is the number of the request on its path, counted from 1.
type step func(w http.ResponseWriter, r *http.Request, n int)

// origin is a scripted server on loopback. For each path it has a list of steps: the first request gets the first, the last one repeats.
// Every request is recorded. Safe for concurrent use.
type origin struct {
	t      *testing.T
	url    string
	addr   string
	server *http.Server
	closed chan struct{}

	mu sync.Mutex // guards following
	// scripts and seen are by path; fallback is for paths without a script.
	scripts  map[string][]step
	fallback []step
	seen     map[string][]*http.Request
	// bodies are the request bodies, in the order of seen.
	bodies map[string][]string
	// times are when the requests came, in the order of seen.
	times map[string][]time.Time
	grown chan struct{}
}

// newOrigin starts an origin that ends with the test.
func newOrigin(t *testing.T) *origin {
	t.Helper()
	o := &origin{
		t: t, closed: make(chan struct{}), scripts: make(map[string][]step), seen: make(map[string][]*http.Request),
		bodies: make(map[string][]string), times: make(map[string][]time.Time), grown: make(chan struct{}),
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.addr = ln.Addr().String()
	o.url = "http://" + o.addr
	o.server = &http.Server{Handler: o}
	go func() { _ = o.server.Serve(ln) }()
	t.Cleanup(o.stop)
	return o
}

// stop closes the listener and all connections: from then on the origin is down.
func (o *origin) stop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case <-o.closed:
	default:
		close(o.closed)
		_ = o.server.Close()
	}
}

// on gives a path its script, replacing the one it had; numbering goes on.
func (o *origin) on(path string, steps ...step) *origin {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.scripts[path] = steps
	return o
}

// onAny is the script of all paths without one.
func (o *origin) onAny(steps ...step) *origin {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fallback = steps
	return o
}

func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	s, n := o.record(r, string(body))
	if s == nil {
		http.Error(w, "no script for "+r.URL.Path, http.StatusNotFound)
		return
	}
	s(w, r, n)
}

func (o *origin) record(r *http.Request, body string) (step, int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	path := r.URL.Path
	o.seen[path] = append(o.seen[path], r.Clone(r.Context()))
	o.bodies[path] = append(o.bodies[path], body)
	o.times[path] = append(o.times[path], time.Now())
	close(o.grown)
	o.grown = make(chan struct{})
	n := len(o.seen[path])
	steps := o.scripts[path]
	if steps == nil {
		steps = o.fallback
	}
	if len(steps) == 0 {
		return nil, n
	}
	return steps[min(n, len(steps))-1], n
}

// count returns how many requests a path has seen.
func (o *origin) count(path string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.seen[path])
}

// total returns how many requests all paths have seen.
func (o *origin) total() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, s := range o.seen {
		n += len(s)
	}
	return n
}

// request returns the n-th request of a path, counted from 1.
func (o *origin) request(path string, n int) *http.Request {
	o.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.seen[path]) < n {
		o.t.Fatalf("origin saw %d requests of %s, want at least %d", len(o.seen[path]), path, n)
	}
	return o.seen[path][n-1]
}

// arrivals returns when the requests of a path came.
func (o *origin) arrivals(path string) []time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]time.Time(nil), o.times[path]...)
}

// await blocks until a path has seen n requests.
func (o *origin) await(path string, n int) {
	o.t.Helper()
	limit := time.After(patience)
	for {
		o.mu.Lock()
		have, grown := len(o.seen[path]), o.grown
		o.mu.Unlock()
		if have >= n {
			return
		}
		select {
		case <-grown:
		case <-limit:
			o.t.Fatalf("origin saw %d requests of %s after %v, waiting for %d", have, path, patience, n)
		}
	}
}

// wantCalls asserts how many requests a path has seen.
func (o *origin) wantCalls(path string, want int) {
	o.t.Helper()
	if got := o.count(path); got != want {
		o.t.Errorf("origin saw %d requests of %s, want %d", got, path, want)
	}
}

// answer sends a status, fields ("Name: value") and a body.
func answer(status int, body string, fields ...string) step {
	return func(w http.ResponseWriter, _ *http.Request, _ int) {
		setFields(w.Header(), fields)
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// page is a 200 whose body is "v1 of /path" on the first request, "v2 of /path" on the second, and so on.
func page(fields ...string) step {
	return func(w http.ResponseWriter, r *http.Request, n int) {
		answer(http.StatusOK, version(n, r.URL.Path), fields...)(w, r, n)
	}
}

// version is the body that page sends to request n of path.
func version(n int, path string) string { return fmt.Sprintf("v%d of %s", n, path) }

// after answers with s after d.
func after(d time.Duration, s step) step {
	return func(w http.ResponseWriter, r *http.Request, n int) {
		select {
		case <-time.After(d):
			s(w, r, n)
		case <-r.Context().Done():
		}
	}
}

// validated answers 304 to a matching If-None-Match, else s. The validator is added to both.
func validated(etag string, s step, fields304 ...string) step {
	return func(w http.ResponseWriter, r *http.Request, n int) {
		w.Header().Set("ETag", etag)
		if r.Header.Get("If-None-Match") == etag {
			setFields(w.Header(), fields304)
			w.WriteHeader(http.StatusNotModified)
			return
		}
		s(w, r, n)
	}
}

// gate holds steps until it is opened. The end of the test opens it.
type gate struct {
	ch   chan struct{}
	once sync.Once
}

func newGate(t *testing.T) *gate {
	g := &gate{ch: make(chan struct{})}
	t.Cleanup(g.open)
	return g
}

func (g *gate) open() { g.once.Do(func() { close(g.ch) }) }

// hold answers with s once the gate is open, whatever becomes of the request meanwhile.
func (g *gate) hold(s step) step {
	return func(w http.ResponseWriter, r *http.Request, n int) {
		<-g.ch
		s(w, r, n)
	}
}

func setFields(h http.Header, fields []string) {
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ":")
		h.Add(name, strings.TrimSpace(value))
	}
}

// rawOrigin serves connections with a function of its own, for answers that net/http would not send. n counts requests from 1; the
// request's head has been read. Returning closes the connection.
func rawOrigin(t *testing.T, serve func(c net.Conn, head string, n int)) *rawServer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawServer{url: "http://" + ln.Addr().String(), serve: serve}
	t.Cleanup(func() { _ = ln.Close() })
	go s.accept(ln)
	return s
}

// rawServer is an origin that answers with bytes.
type rawServer struct {
	url   string
	serve func(c net.Conn, head string, n int)

	mu    sync.Mutex // guards following
	heads []string
}

func (s *rawServer) accept(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go s.one(c)
	}
}

func (s *rawServer) one(c net.Conn) {
	defer c.Close()
	head, err := readHead(c)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.heads = append(s.heads, head)
	n := len(s.heads)
	s.mu.Unlock()
	s.serve(c, head, n)
}

// count returns how many requests came.
func (s *rawServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.heads)
}

// readHead reads byte by byte up to the empty line, so that nothing after it is taken.
func readHead(c net.Conn) (string, error) {
	var b []byte
	one := make([]byte, 1)
	for !bytes.HasSuffix(b, []byte("\r\n\r\n")) {
		if _, err := c.Read(one); err != nil {
			return "", err
		}
		b = append(b, one[0])
	}
	return string(b), nil
}
