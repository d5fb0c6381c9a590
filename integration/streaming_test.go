package integration

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Promise: bodies flow to all their readers as they arrive.

// trickle sends n numbered lines, d apart.
func trickle(n int, d time.Duration, fields ...string) step {
	return func(w http.ResponseWriter, r *http.Request, _ int) {
		setFields(w.Header(), fields)
		for i := range n {
			if i > 0 {
				time.Sleep(d)
			}
			if _, err := io.WriteString(w, line(i)); err != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
	}
}

func line(i int) string { return fmt.Sprintf("line %d\n", i) }

// trickled is the body that trickle sends.
func trickled(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(line(i))
	}
	return b.String()
}

// halves sends a first half, waits for the gate, and sends the second.
func halves(g *gate, fields ...string) step {
	return func(w http.ResponseWriter, _ *http.Request, _ int) {
		setFields(w.Header(), fields)
		_, _ = io.WriteString(w, "first half, ")
		w.(http.Flusher).Flush()
		<-g.ch
		_, _ = io.WriteString(w, "second half")
	}
}

// start sends a request and reads the head of its answer and the first n bytes of the body, leaving what follows to rest.
func (c *conn) start(t *testing.T, raw string, n int) (*http.Response, string, time.Duration) {
	t.Helper()
	began := time.Now()
	c.write(t, raw)
	resp, err := http.ReadResponse(c.br, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(resp.Body, b); err != nil {
		t.Fatal(err)
	}
	return resp, string(b), time.Since(began)
}

// rest reads the remainder of a body.
func rest(t *testing.T, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

func TestSecondClientJoinsABodyThatIsArriving(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	p := before(t, o)
	g := newGate(t)
	o.on("/arriving", halves(g, "Cache-Control: max-age=60"))
	const whole = "first half, second half"
	first, got1, _ := dial(t, p.Addr()).start(t, request("GET", "/arriving"), len("first half, "))
	// The origin is silent now: what the second client gets can only come from the transfer in progress.
	second, got2, took := dial(t, p.Addr()).start(t, request("GET", "/arriving"), len("first half, "))
	if took > within(200*time.Millisecond) {
		t.Errorf("second client's first bytes took %v", took)
	}
	g.open()
	if got := got1 + rest(t, first); got != whole {
		t.Errorf("first client got %q", got)
	}
	if got := got2 + rest(t, second); got != whole {
		t.Errorf("second client got %q", got)
	}
	o.wantCalls("/arriving", 1)
	p.get("/arriving").want(t, http.StatusOK, whole)
	o.wantCalls("/arriving", 1)
}

// LCK-15: a client that does not read holds up nobody else.
func TestSlowClientHoldsUpNobody(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("0123456789abcdef", 5<<20/16)
	o := newOrigin(t)
	p := before(t, o)
	g := newGate(t)
	o.on("/big", g.hold(answer(http.StatusOK, body, "Cache-Control: max-age=60")))
	slow := dial(t, p.Addr())
	slow.write(t, request("GET", "/big")) // and never reads
	o.await("/big", 1)
	quick := background(t, p, 2, request("GET", "/big"))
	g.open()
	wantAll(t, quick(), http.StatusOK, body)
	o.wantCalls("/big", 1)
}

// BDY-03: what is stored is what was sent, at every size at which some buffer begins or ends.
func TestStoredBodiesEqualThoseSent(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	p := before(t, o)
	stored := 0
	for _, size := range []int{0, 1, 4095, 4096, 4097, 64 << 10, 64<<10 + 1, 1 << 20, 1<<20 + 1, 6 << 20} {
		body := strings.Repeat("swrproxy", size/8+1)[:size]
		path := fmt.Sprintf("/size/%d", size)
		chunked := func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("Cache-Control", "max-age=600")
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, body)
		}
		o.on(path, answer(http.StatusOK, body, "Cache-Control: max-age=600")).on(path+"/chunked", chunked)
		for _, path := range []string{path, path + "/chunked"} {
			p.get(path).want(t, http.StatusOK, body)
			stored++
			p.awaitStored(stored) // until then a reader may share the body that is arriving
			r := p.get(path)
			r.want(t, http.StatusOK, body)
			r.wantHit(t, true)
			o.wantCalls(path, 1)
		}
	}
}

// MEM-02: what one reader has just been given, the next one finds.
func TestARecordIsVisibleToTheVeryNextRead(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).onAny(page("Cache-Control: max-age=600"))
	p := before(t, o)
	c := dial(t, p.Addr())
	for i := range 2000 {
		path := fmt.Sprintf("/next/%d", i)
		c.send(request("GET", path)).want(t, http.StatusOK, version(1, path))
		r := c.send(request("GET", path))
		r.want(t, http.StatusOK, version(1, path))
		r.wantHit(t, true)
	}
	if n := o.total(); n != 2000 {
		t.Errorf("origin saw %d requests for 2000 keys", n)
	}
}

// STR-02: an endless answer is passed on as it comes, is not shared and not stored, whatever its Cache-Control says.
func TestEventStreamsAreNotCached(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	p := before(t, o)
	g := newGate(t)
	o.on("/events", halves(g, "Content-Type: text/event-stream", "Cache-Control: max-age=60"))
	first, _, took := dial(t, p.Addr()).start(t, request("GET", "/events"), len("first half, "))
	if took > within(100*time.Millisecond) {
		t.Errorf("first event took %v", took)
	}
	second, _, _ := dial(t, p.Addr()).start(t, request("GET", "/events"), len("first half, "))
	o.await("/events", 2)
	g.open()
	rest(t, first)
	rest(t, second)
	p.get("/events").wantHit(t, false)
	o.wantCalls("/events", 3)
}

// STR-05: interim answers go through as they come (RFC 8297, RFC 9110 §15.2).
func TestEarlyHintsArePassedOn(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	p := before(t, o)
	g := newGate(t)
	o.on("/hints", func(w http.ResponseWriter, r *http.Request, n int) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.Header().Set("X-Early", "yes")
		w.WriteHeader(http.StatusEarlyHints)
		<-g.ch
		w.Header().Del("Link")
		w.Header().Del("X-Early")
		page("Cache-Control: max-age=60")(w, r, n)
	})
	c := dial(t, p.Addr())
	c.write(t, request("GET", "/hints"))
	early, err := http.ReadResponse(c.br, nil)
	if err != nil {
		t.Fatal(err)
	}
	if early.StatusCode != http.StatusEarlyHints || early.Header.Get("Link") != "</style.css>; rel=preload" || early.Header.Get("X-Early") != "yes" {
		t.Errorf("interim answer: status %d, header %v", early.StatusCode, early.Header)
	}
	g.open()
	c.read("GET", time.Now()).want(t, http.StatusOK, version(1, "/hints"))
	r := p.get("/hints")
	r.want(t, http.StatusOK, version(1, "/hints"))
	if len(r.Interim) != 0 || r.Header.Get("Link") != "" {
		t.Errorf("a hit repeats the interim answer: %v, Link %q", r.Interim, r.Header.Get("Link"))
	}
}

// A 102 says that work goes on; it is passed on and changes nothing about the final answer.
func TestProcessingIsPassedOn(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/works", func(w http.ResponseWriter, r *http.Request, n int) {
		w.WriteHeader(http.StatusProcessing)
		page("Cache-Control: max-age=60")(w, r, n)
	})
	p := before(t, o)
	r := p.get("/works")
	r.want(t, http.StatusOK, version(1, "/works"))
	if len(r.Interim) != 1 || r.Interim[0] != http.StatusProcessing {
		t.Errorf("interim answers %v, want one 102", r.Interim)
	}
	p.get("/works").wantHit(t, true)
}

// Trailers reach the client when it says that it takes them (RFC 9110 §6.5), as gRPC needs.
func TestTrailersArePassedOn(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/rpc", func(w http.ResponseWriter, r *http.Request, n int) {
		w.Header().Set("Trailer", "Grpc-Status")
		w.Header().Set("Content-Type", "application/grpc")
		_, _ = io.WriteString(w, "message")
		w.Header().Set("Grpc-Status", "0")
	})
	p := before(t, o)
	body := "hello"
	raw := request("POST", "/rpc", "TE: trailers", fmt.Sprintf("Content-Length: %d", len(body))) + body
	r := fetch(t, p.Addr(), raw)
	r.want(t, http.StatusOK, "message")
	if got := r.Trailer.Get("Grpc-Status"); got != "0" {
		t.Errorf("trailer Grpc-Status %q, want 0; all: %v", got, r.Trailer)
	}
}
