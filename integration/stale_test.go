package integration

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"
)

// Promise: inside the stale window every reader is answered at once, and one refresh runs behind.

// staleRounds is how often the stale burst is compared with the plain one; the best of each counts, to keep the machine's noise out.
const staleRounds = 3

// refreshTakes is how long the origin takes for each refresh.
const refreshTakes = 500 * time.Millisecond

func TestManyClientsOnAnExpiredKeyInsideItsStaleWindow(t *testing.T) {
	o := newOrigin(t).on("/hit", page("Cache-Control: max-age=600"))
	p := before(t, o)
	p.prime("/hit")
	for i := range staleRounds {
		path := fmt.Sprintf("/stale-%d", i)
		o.on(path, page("Cache-Control: max-age=1, stale-while-revalidate=60"),
			after(refreshTakes, page("Cache-Control: max-age=600")))
		p.prime(path)
	}
	expire()
	plain, stale := time.Hour, time.Hour
	for i := range staleRounds {
		path := fmt.Sprintf("/stale-%d", i)
		hits := burst(t, p.Addr(), 300, same(request("GET", "/hit")))
		wantAll(t, hits, http.StatusOK, version(1, "/hit"))
		replies := burst(t, p.Addr(), 300, same(request("GET", path)))
		wantAll(t, replies, http.StatusOK, version(1, path))
		plain, stale = min(plain, percentile(hits, 0.99)), min(stale, percentile(replies, 0.99))
		p.awaitBody(path, version(2, path))
		o.wantCalls(path, 2)
	}
	t.Logf("p99 of 300 stale answers at once %v, of plain hits %v", stale, plain)
	// The floor is for bursts so quick that scheduling is all that is measured; who waits for the refresh is far above it.
	if bound := max(3*plain, refreshTakes/2); stale > bound {
		t.Errorf("p99 of stale answers %v, of plain hits %v: want at most 3 times as much (or %v)", stale, plain, bound)
	}
}

func TestFailingRefreshBacksOffWhileStaleIsServed(t *testing.T) {
	o := newOrigin(t)
	p := before(t, o)
	g := newGate(t)
	fail := answer(http.StatusServiceUnavailable, "down")
	o.on("/f", page("Cache-Control: max-age=1, stale-while-revalidate=600"), g.hold(after(150*time.Millisecond, fail)), fail)
	p.prime("/f")
	expire()

	// While the refresh runs: the gate is shut, so a read that waited for it would never return.
	replies := readers(t, p, 4, 75, "/f")
	wantAll(t, replies, http.StatusOK, version(1, "/f"))
	o.wantCalls("/f", 2)
	t.Logf("stale reads while the refresh hangs: median %v, p99 %v", percentile(replies, 0.5), percentile(replies, 0.99))

	// It fails: one warning, and the next attempts keep their distance.
	g.open()
	if !eventually(func() bool { return len(p.warnings("/f")) > 0 }) {
		t.Fatal("no warning about the failed refresh")
	}
	if n := len(p.warnings("/f")); n != 1 {
		t.Errorf("%d warnings for one failure", n)
	}
	c := dial(t, p.Addr())
	for o.count("/f") < 4 {
		c.send(request("GET", "/f")).want(t, http.StatusOK, version(1, "/f"))
		time.Sleep(2 * time.Millisecond)
	}
	wantDistances(t, o.arrivals("/f")[1:], 700*time.Millisecond, 1400*time.Millisecond)
	if n := len(p.warnings("/f")); n > o.count("/f")-1 {
		t.Errorf("%d warnings for %d failures, want at most one for each step of the back-off", n, o.count("/f")-1)
	}

	// The origin recovers, and so do we.
	o.on("/f", page("Cache-Control: max-age=600"))
	p.awaitBody("/f", version(5, "/f"))
}

// wantDistances asserts that call i+1 came at least least[i] after call i.
func wantDistances(t *testing.T, at []time.Time, least ...time.Duration) {
	t.Helper()
	for i, d := range least {
		if got := at[i+1].Sub(at[i]); got < d {
			t.Errorf("attempt %d came %v after attempt %d, want at least %v", i+2, got, i+1, d)
		}
	}
}

// readers lets n connections read path times times each, one after another.
func readers(t *testing.T, p *proxy, n, times int, path string) []reply {
	t.Helper()
	replies := make([]reply, n*times)
	var done sync.WaitGroup
	for i := range n {
		c := dial(t, p.Addr())
		done.Go(func() {
			for j := range times {
				replies[i*times+j] = c.send(request("GET", path))
			}
		})
	}
	done.Wait()
	return replies
}

func TestClientDisconnectsRightAfterItsStaleAnswer(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	p := before(t, o)
	g := newGate(t)
	o.on("/gone", page("Cache-Control: max-age=1, stale-while-revalidate=60"), g.hold(page("Cache-Control: max-age=600")))
	p.prime("/gone")
	expire()
	p.get("/gone").want(t, http.StatusOK, version(1, "/gone")) // closes its connection
	o.await("/gone", 2)
	g.open()
	p.awaitBody("/gone", version(2, "/gone")).wantHit(t, true)
	o.wantCalls("/gone", 2)
}

func TestEveryOfManyExpiredKeysIsRefreshedOnce(t *testing.T) {
	const keys, readersPerKey = 800, 8
	o := newOrigin(t).onAny(page("Cache-Control: max-age=2, stale-while-revalidate=600"), page("Cache-Control: max-age=600"))
	p := before(t, o)
	paths := make([]string, keys)
	for i := range paths {
		paths[i] = fmt.Sprintf("/sweep/%d", i)
	}
	c := dial(t, p.Addr())
	for _, path := range paths {
		c.send(request("GET", path)).want(t, http.StatusOK, version(1, path))
	}
	time.Sleep(2100 * time.Millisecond) // the last of them has expired
	var done sync.WaitGroup
	for i := range readersPerKey {
		order := rand.New(rand.NewPCG(7, uint64(i))).Perm(keys)
		c := dial(t, p.Addr())
		done.Go(func() {
			for _, k := range order {
				r := c.send(request("GET", paths[k]))
				if r.Body != version(1, paths[k]) && r.Body != version(2, paths[k]) {
					t.Errorf("GET %s: status %d, %v, body %q", paths[k], r.Status, r.Err, r.Body)
					return
				}
			}
		})
	}
	done.Wait()
	for _, path := range paths {
		o.await(path, 2)
	}
	for _, path := range paths {
		o.wantCalls(path, 2)
	}
}

// SWR-02: fresh, then stale with one refresh behind, then the new body, then, past the window, a read that waits.
func TestLifeOfARecordWithAStaleWindow(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/life", page("Cache-Control: public, s-maxage=1, stale-while-revalidate=2"))
	p := before(t, o)
	p.prime("/life")
	p.get("/life").want(t, http.StatusOK, version(1, "/life"))
	expire()
	stale := p.get("/life")
	stale.want(t, http.StatusOK, version(1, "/life"))
	stale.wantHit(t, true)
	o.await("/life", 2)
	p.awaitBody("/life", version(2, "/life"))
	time.Sleep(3200 * time.Millisecond) // lifetime and stale window are over
	late := p.get("/life")
	late.want(t, http.StatusOK, version(3, "/life"))
	late.wantHit(t, false)
	o.wantCalls("/life", 3)
}

// SWR-03 and SWR-05: with a validator the refresh is conditional and a 304 freshens; without one it is a plain GET.
func TestRefreshByValidatorAndWithout(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.on("/etag", validated(`"a"`, page("Cache-Control: public, max-age=1, stale-while-revalidate=600"), "Cache-Control: max-age=600"))
	o.on("/plain", page("Cache-Control: public, max-age=1, stale-while-revalidate=600"), page("Cache-Control: max-age=600"))
	p := before(t, o)
	p.prime("/etag")
	p.prime("/plain")
	expire()
	p.get("/etag").want(t, http.StatusOK, version(1, "/etag"))
	p.get("/plain").want(t, http.StatusOK, version(1, "/plain"))
	o.await("/etag", 2)
	if got := o.request("/etag", 2).Header.Get("If-None-Match"); got != `"a"` {
		t.Errorf("refresh has If-None-Match %q", got)
	}
	p.awaitBody("/plain", version(2, "/plain"))
	if h := o.request("/plain", 2).Header; h.Get("If-None-Match") != "" || h.Get("If-Modified-Since") != "" {
		t.Errorf("refresh without a validator is conditional: %v", h)
	}
	expire()
	for range 3 {
		r := p.get("/etag")
		r.want(t, http.StatusOK, version(1, "/etag"))
		r.wantHit(t, true)
	}
	o.wantCalls("/etag", 2)
}

// SWR-06: an answer that reports an error does not replace a good record, not even one that says it may be stored.
func TestErrorsDoNotReplaceAGoodRecord(t *testing.T) {
	t.Parallel()
	for name, fields := range map[string][]string{"without freshness": nil, "with freshness": {"Cache-Control: max-age=60"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOrigin(t).on("/good", page("Cache-Control: max-age=1, stale-while-revalidate=60"), answer(503, "bad", fields...))
			p := before(t, o)
			p.prime("/good")
			expire()
			p.get("/good").want(t, http.StatusOK, version(1, "/good"))
			o.await("/good", 2)
			if !eventually(func() bool { return len(p.warnings("/good")) > 0 }) {
				t.Error("no warning about the failed refresh")
			}
			for range 5 {
				p.get("/good").want(t, http.StatusOK, version(1, "/good"))
			}
		})
	}
}

// SWR-07: what the origin says in Retry-After is the least distance (RFC 9110 §10.2.3).
func TestRetryAfterIsTheLeastDistance(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/ra", page("Cache-Control: max-age=1, stale-while-revalidate=600"), answer(503, "later", "Retry-After: 3"))
	p := before(t, o)
	p.prime("/ra")
	expire()
	c := dial(t, p.Addr())
	for o.count("/ra") < 3 {
		c.send(request("GET", "/ra")).want(t, http.StatusOK, version(1, "/ra"))
		time.Sleep(5 * time.Millisecond)
	}
	wantDistances(t, o.arrivals("/ra")[1:], 2900*time.Millisecond)
}

// SWR-20: the next cache sees by Age that what it got is stale already.
func TestStaleAnswersSayTheirAge(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	p := before(t, o)
	g := newGate(t)
	o.on("/inner", page("Cache-Control: max-age=1, stale-while-revalidate=60"), g.hold(page()))
	p.prime("/inner")
	expire()
	r := p.get("/inner")
	r.want(t, http.StatusOK, version(1, "/inner"))
	if age := r.Header.Get("Age"); age == "" || age == "0" {
		t.Errorf("Age of a stale answer is %q, want at least its lifetime of 1", age)
	}
}

// Once a stale answer is out, the request that started the refresh is not used any more: the fill asks for itself.
func TestRefreshDoesNotForwardItsStartersConditions(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/own", page("Cache-Control: max-age=1, stale-while-revalidate=60", `ETag: "one"`),
		page("Cache-Control: max-age=600", `ETag: "two"`))
	p := before(t, o)
	p.prime("/own")
	expire()
	p.get("/own", `If-None-Match: "one"`, "Range: bytes=0-0").want(t, http.StatusNotModified, "")
	o.await("/own", 2)
	h := o.request("/own", 2).Header
	if h.Get("Range") != "" || h.Get("If-None-Match") != `"one"` {
		t.Errorf("refresh was sent with Range %q, If-None-Match %q", h.Get("Range"), h.Get("If-None-Match"))
	}
	p.awaitBody("/own", version(2, "/own"))
}
