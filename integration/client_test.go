package integration

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// site is the authority that tests ask for unless they say otherwise.
const site = "www.example.org"

// clientLimit bounds one exchange, so that a reader who is never answered fails its test instead of hanging it.
const clientLimit = 40 * time.Second

// reply is what a client got.
type reply struct {
	Status int
	Proto  string
	Header http.Header
	Body   string
	// Trailer is complete when BodyErr is nil.
	Trailer http.Header
	// Interim are the statuses of 1xx answers that came before, EarlyLinks their Link fields.
	Interim    []int
	EarlyLinks []string
	// Close means that the server closes the connection after this answer.
	Close bool
	// First and Took run from the last byte of the request to the first and the last of the answer.
	First, Took time.Duration
	// Err means that there was no complete head, BodyErr that the body broke off.
	Err, BodyErr error
}

// conn is one client connection, used for one request at a time.
type conn struct {
	net.Conn
	br *bufio.Reader
}

// dial connects to addr; the connection closes with the test.
func dial(t *testing.T, addr string) *conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return newConn(c)
}

func newConn(c net.Conn) *conn { return &conn{Conn: c, br: bufio.NewReader(c)} }

// request builds a request's head (and body, if the last field is followed by one in send).
func request(method, path string, fields ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", method, path)
	if !slices.ContainsFunc(fields, func(f string) bool { return strings.HasPrefix(strings.ToLower(f), "host:") }) {
		fmt.Fprintf(&b, "Host: %s\r\n", site)
	}
	for _, f := range fields {
		b.WriteString(f + "\r\n")
	}
	return b.String() + "\r\n"
}

// send writes a request and reads its answer whole.
func (c *conn) send(raw string) reply {
	_ = c.SetDeadline(time.Now().Add(clientLimit))
	if _, err := io.WriteString(c, raw); err != nil {
		return reply{Err: fmt.Errorf("write: %w", err)}
	}
	method, _, _ := strings.Cut(raw, " ")
	return c.read(method, time.Now())
}

// read reads one final answer to a request with method that was written at start.
func (c *conn) read(method string, start time.Time) reply {
	var r reply
	if _, err := c.br.Peek(1); err != nil {
		return reply{Err: fmt.Errorf("no answer: %w", err), Took: time.Since(start)}
	}
	r.First = time.Since(start)
	resp, err := c.final(method, &r)
	if err != nil {
		return reply{Err: err, Took: time.Since(start)}
	}
	r.Status, r.Proto, r.Header, r.Close = resp.StatusCode, resp.Proto, resp.Header, resp.Close
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return r
	}
	body, err := io.ReadAll(resp.Body)
	r.Body, r.BodyErr, r.Took, r.Trailer = string(body), err, time.Since(start), resp.Trailer
	return r
}

func (c *conn) final(method string, r *reply) (*http.Response, error) {
	for {
		resp, err := http.ReadResponse(c.br, &http.Request{Method: method})
		if err != nil {
			return nil, fmt.Errorf("head: %w", err)
		}
		if resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, nil
		}
		r.Interim = append(r.Interim, resp.StatusCode)
		r.EarlyLinks = append(r.EarlyLinks, resp.Header.Values("Link")...)
	}
}

// fetch sends one request on a connection of its own.
func fetch(t *testing.T, addr, raw string) reply {
	t.Helper()
	c := dial(t, addr)
	defer c.Close()
	return c.send(raw)
}

// burst lets n clients, all connected before, send at the same moment; raw builds the request of client i.
func burst(t *testing.T, addr string, n int, raw func(i int) string) []reply {
	t.Helper()
	conns := make([]*conn, n)
	for i := range conns {
		conns[i] = dial(t, addr)
	}
	replies := make([]reply, n)
	barrier := make(chan struct{})
	var done sync.WaitGroup
	for i, c := range conns {
		text := raw(i)
		done.Go(func() {
			<-barrier
			replies[i] = c.send(text)
			_ = c.Close()
		})
	}
	close(barrier)
	done.Wait()
	return replies
}

// same is a request builder for burst that gives everybody the same request.
func same(raw string) func(int) string { return func(int) string { return raw } }

// percentile returns the p-th percentile (0 to 1) of how long replies took.
func percentile(replies []reply, p float64) time.Duration {
	took := make([]time.Duration, len(replies))
	for i, r := range replies {
		took[i] = r.Took
	}
	slices.Sort(took)
	return took[min(int(p*float64(len(took))), len(took)-1)]
}

// want asserts status and body of a complete answer.
func (r reply) want(t *testing.T, status int, body string) {
	t.Helper()
	if err := r.problem(status, body); err != nil {
		t.Error(err)
	}
}

// problem says what is wrong with an answer that should be complete and have this status and body.
func (r reply) problem(status int, body string) error {
	switch {
	case r.Err != nil:
		return fmt.Errorf("no answer: %w", r.Err)
	case r.BodyErr != nil:
		return fmt.Errorf("status %d, body broke off after %d bytes: %w", r.Status, len(r.Body), r.BodyErr)
	case r.Status != status:
		return fmt.Errorf("status %d, want %d; Cache-Status %q, body %q", r.Status, status, r.cacheStatus(), clip(r.Body))
	case r.Body != body:
		return fmt.Errorf("body %q, want %q; Cache-Status %q", clip(r.Body), clip(body), r.cacheStatus())
	}
	return nil
}

func clip(s string) string {
	if len(s) > 80 {
		return fmt.Sprintf("%s… (%d bytes)", s[:80], len(s))
	}
	return s
}

// wantAll asserts the same of many answers and reports how many were wrong, and the first.
func wantAll(t *testing.T, replies []reply, status int, body string) {
	t.Helper()
	var first error
	wrong := 0
	for _, r := range replies {
		if err := r.problem(status, body); err != nil {
			wrong++
			first = errors.Join(first, err)
		}
	}
	if wrong > 0 {
		text := first.Error()
		t.Errorf("%d of %d answers wrong, among them: %s", wrong, len(replies), text[:min(len(text), 400)])
	}
}

// cacheStatus returns this proxy's member of Cache-Status: the last one.
func (r reply) cacheStatus() string {
	members := strings.Split(strings.Join(r.Header.Values("Cache-Status"), ","), ",")
	return strings.TrimSpace(members[len(members)-1])
}

// hit tells whether Cache-Status says that the answer came from the cache.
func (r reply) hit() bool {
	return slices.Contains(strings.Split(strings.ReplaceAll(r.cacheStatus(), " ", ""), ";"), "hit")
}

// wantHit asserts what Cache-Status says.
func (r reply) wantHit(t *testing.T, want bool) {
	t.Helper()
	if r.Err == nil && r.hit() != want {
		t.Errorf("Cache-Status %q, want hit=%v", r.cacheStatus(), want)
	}
}

// write sends a request without reading its answer.
func (c *conn) write(t *testing.T, raw string) {
	t.Helper()
	_ = c.SetDeadline(time.Now().Add(clientLimit))
	if _, err := io.WriteString(c, raw); err != nil {
		t.Fatal(err)
	}
}

// background sends the same request on n connections and returns at once; the function returned waits for the answers.
func background(t *testing.T, p *proxy, n int, raw string) func() []reply {
	t.Helper()
	return backgroundEach(t, p, slices.Repeat([]string{raw}, n))
}

// backgroundEach is background with a request for each client.
func backgroundEach(t *testing.T, p *proxy, raws []string) func() []reply {
	t.Helper()
	replies := make([]reply, len(raws))
	var done sync.WaitGroup
	for i, raw := range raws {
		c := dial(t, p.Addr())
		done.Go(func() { replies[i] = c.send(raw) })
	}
	return func() []reply {
		done.Wait()
		return replies
	}
}
