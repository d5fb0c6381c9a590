package integration

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// Promise: readers of a record that nobody has yet cause one fetch, and share what came of it.

func TestManyClientsOnAColdKey(t *testing.T) {
	o := newOrigin(t).on("/cold", after(500*time.Millisecond, page("Cache-Control: max-age=60")))
	p := before(t, o)
	replies := burst(t, p.Addr(), 300, same(request("GET", "/cold")))
	wantAll(t, replies, http.StatusOK, version(1, "/cold"))
	o.wantCalls("/cold", 1)
	t.Logf("300 clients, origin takes 500 ms: median %v, slowest %v", percentile(replies, 0.5), percentile(replies, 1))
	if slowest := percentile(replies, 1); slowest > within(1500*time.Millisecond) {
		t.Errorf("slowest of %d took %v, want under %v", len(replies), slowest, within(1500*time.Millisecond))
	}
}

func TestManyClientsOnAnExpiredKeyWithoutStaleWindow(t *testing.T) {
	o := newOrigin(t).on("/expired", page("Cache-Control: max-age=1"),
		after(500*time.Millisecond, page("Cache-Control: max-age=60")))
	p := before(t, o)
	p.prime("/expired")
	expire()
	replies := burst(t, p.Addr(), 300, same(request("GET", "/expired")))
	wantAll(t, replies, http.StatusOK, version(2, "/expired"))
	o.wantCalls("/expired", 2)
}

func TestManyClientsOnAColdKeyWhoseOriginFails(t *testing.T) {
	o := newOrigin(t).on("/fails", after(150*time.Millisecond, answer(http.StatusServiceUnavailable, "down")))
	p := before(t, o)
	replies := burst(t, p.Addr(), 100, same(request("GET", "/fails")))
	for _, r := range replies {
		if r.Err != nil || r.BodyErr != nil || r.Status < 500 {
			t.Fatalf("status %d, errors %v, %v; want a 5xx", r.Status, r.Err, r.BodyErr)
		}
	}
	if n := o.count("/fails"); n > 2 {
		t.Errorf("origin saw %d requests, want at most 2", n)
	}
	if slowest := percentile(replies, 1); slowest > within(time.Second) {
		t.Errorf("slowest took %v, want under %v", slowest, within(time.Second))
	}
}

// The next new reader starts the next fill: a shared failure is not remembered for those who were not there.
func TestAReaderAfterASharedFailureAsksAgain(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/heals", answer(http.StatusServiceUnavailable, "down"), page("Cache-Control: max-age=60"))
	p := start(t, conf{Origin: o.url, Fill: "{ tenure: 3s, backoff: { first: 100ms, max: 200ms } }"})
	if r := p.get("/heals"); r.Status != http.StatusServiceUnavailable {
		t.Fatalf("first read: status %d, want 503", r.Status)
	}
	p.awaitStatus("/heals", http.StatusOK)
}

func TestFirstClientOfAColdFillDisconnects(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	p := before(t, o)
	g := newGate(t)
	o.on("/left", g.hold(page("Cache-Control: max-age=60")))

	first := dial(t, p.Addr())
	first.write(t, request("GET", "/left"))
	o.await("/left", 1)
	others := background(t, p, 20, request("GET", "/left"))
	p.awaitWaiting(20)
	_ = first.Close()
	g.open()
	wantAll(t, others(), http.StatusOK, version(1, "/left"))
	o.wantCalls("/left", 1)
}

func TestClientsOfAnAnswerThatIsNotShared(t *testing.T) {
	var served atomic.Int64
	unique := func(w http.ResponseWriter, r *http.Request, n int) {
		body := fmt.Sprintf("for reader %d only", served.Add(1))
		answer(http.StatusOK, body, "Cache-Control: private, no-store")(w, r, n)
	}
	o := newOrigin(t).on("/mine", after(300*time.Millisecond, unique))
	p := before(t, o)
	rounds := []struct {
		name  string
		bound time.Duration
	}{
		{"first round: one finds out, the rest follow together", 1200 * time.Millisecond},
		{"second round: the key is known not to be shared", 600 * time.Millisecond},
	}
	bodies := make(map[string]bool)
	for i, round := range rounds {
		replies := burst(t, p.Addr(), 50, same(request("GET", "/mine")))
		for _, r := range replies {
			if r.Err != nil || r.Status != http.StatusOK || bodies[r.Body] {
				t.Fatalf("%s: status %d, %v, body %q (seen before: %v)", round.name, r.Status, r.Err, r.Body, bodies[r.Body])
			}
			bodies[r.Body] = true
		}
		t.Logf("%s: slowest %v", round.name, percentile(replies, 1))
		if slowest := percentile(replies, 1); slowest > within(round.bound) {
			t.Errorf("%s: slowest took %v, want under %v", round.name, slowest, within(round.bound))
		}
		o.wantCalls("/mine", 50*(i+1))
	}
}

// LCK-06 in its other forms: whatever makes an answer unfit for others, its readers do not queue behind each other.
func TestReadersOfUnshareableAnswersDoNotQueue(t *testing.T) {
	t.Parallel()
	for name, field := range map[string]string{
		"private": "Cache-Control: private", "no-store": "Cache-Control: no-store", "cookie": "Set-Cookie: sid=1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOrigin(t)
			p := before(t, o)
			g := newGate(t)
			o.on("/u", page(field, "Cache-Control: max-age=60"), g.hold(page(field)))
			replies := background(t, p, 20, request("GET", "/u"))
			// All of them but the first are at the origin at the same time, or this never returns.
			o.await("/u", 20)
			g.open()
			for _, r := range replies() {
				if r.Err != nil || r.Status != http.StatusOK {
					t.Errorf("status %d, %v", r.Status, r.Err)
				}
			}
			o.wantCalls("/u", 20)
		})
	}
}

// LCK-04: a waiter who leaves is gone at once, the holder goes on.
func TestWaitersWhoLeaveAreForgotten(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	p := before(t, o)
	g := newGate(t)
	o.on("/slow", g.hold(page("Cache-Control: max-age=60")))
	stays := background(t, p, 1, request("GET", "/slow"))
	o.await("/slow", 1)
	leavers := make([]*conn, 100)
	for i := range leavers {
		leavers[i] = dial(t, p.Addr())
		leavers[i].write(t, request("GET", "/slow"))
	}
	p.awaitWaiting(len(leavers))
	for _, c := range leavers {
		_ = c.Close()
	}
	p.awaitWaiting(0)
	g.open()
	wantAll(t, stays(), http.StatusOK, version(1, "/slow"))
	o.wantCalls("/slow", 1)
}

// LCK-09: readers of other variants do not wait for one another.
func TestColdVariantsAreFetchedInParallel(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	p := before(t, o)
	g := newGate(t)
	byLanguage := func(w http.ResponseWriter, r *http.Request, n int) {
		answer(http.StatusOK, "in "+r.Header.Get("Accept-Language"), "Cache-Control: max-age=60", "Vary: Accept-Language")(w, r, n)
	}
	o.on("/v", byLanguage, g.hold(byLanguage))
	languages := make([]string, 20)
	raws := make([]string, len(languages))
	for i := range languages {
		languages[i] = string(rune('a'+i)) + "x"
		raws[i] = request("GET", "/v", "Accept-Language: "+languages[i])
	}
	replies := backgroundEach(t, p, raws)
	// After the first answer all others are at the origin together, or this never returns.
	o.await("/v", len(languages))
	g.open()
	for i, r := range replies() {
		r.want(t, http.StatusOK, "in "+languages[i])
	}
	o.wantCalls("/v", len(languages))
}

// LCK-16: those who waited while an answer was made may use it although it is stale on arrival.
func TestWaitersShareAnAnswerThatIsStaleOnArrival(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	p := before(t, o)
	g := newGate(t)
	o.on("/zero", g.hold(page("Cache-Control: public, max-age=0", `ETag: "a"`)), page("Cache-Control: public, max-age=0", `ETag: "b"`))
	replies := background(t, p, 30, request("GET", "/zero"))
	o.await("/zero", 1)
	p.awaitWaiting(29)
	g.open()
	wantAll(t, replies(), http.StatusOK, version(1, "/zero"))
	o.wantCalls("/zero", 1)
	p.get("/zero").want(t, http.StatusOK, version(2, "/zero"))
}

// LCK-22: a client that gives up is not the origin's fault.
func TestClientsThatGiveUpDoNotMarkTheOrigin(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	p := before(t, o)
	g := newGate(t)
	o.on("/given-up", g.hold(page("Cache-Control: no-store"))).on("/other", page("Cache-Control: no-store"))
	conns := make([]*conn, 30)
	for i := range conns {
		conns[i] = dial(t, p.Addr())
		conns[i].write(t, request("POST", "/given-up", "Content-Length: 0"))
	}
	o.await("/given-up", len(conns))
	for _, c := range conns {
		_ = c.Close()
	}
	p.get("/other").want(t, http.StatusOK, version(1, "/other"))
	o.wantCalls("/given-up", len(conns))
}
