package integration

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// Promise: with the file keeper, all processes of a host refresh a key one at a time.

// crowd wraps steps and remembers how many requests were being answered at once.
type crowd struct{ now, most atomic.Int64 }

func (c *crowd) watch(s step) step {
	return func(w http.ResponseWriter, r *http.Request, n int) {
		now := c.now.Add(1)
		defer c.now.Add(-1)
		for most := c.most.Load(); now > most && !c.most.CompareAndSwap(most, now); most = c.most.Load() {
		}
		s(w, r, n)
	}
}

func pair(t *testing.T, o *origin) (a, b *proxy) {
	t.Helper()
	fill := fmt.Sprintf("{ tenure: %s, keeper: file, path: %s, stale: 1s }", tenure, t.TempDir())
	return start(t, conf{Origin: o.url, Fill: fill}), start(t, conf{Origin: o.url, Fill: fill})
}

func TestTwoProcessesRefreshOneAtATime(t *testing.T) {
	t.Parallel()
	var c crowd
	o := newOrigin(t).on("/k", c.watch(page("Cache-Control: max-age=1, stale-while-revalidate=600")))
	a, b := pair(t, o)
	a.prime("/k")
	b.get("/k").want(t, http.StatusOK, version(2, "/k"))
	expire()
	g := newGate(t)
	o.on("/k", c.watch(g.hold(page("Cache-Control: max-age=600"))))
	a.get("/k").want(t, http.StatusOK, version(1, "/k"))
	o.await("/k", 3)
	for range 20 {
		a.get("/k").want(t, http.StatusOK, version(1, "/k"))
		b.get("/k").want(t, http.StatusOK, version(2, "/k"))
	}
	o.wantCalls("/k", 3)
	g.open()
	a.awaitBody("/k", version(3, "/k"))
	b.awaitBody("/k", version(4, "/k"))
	if most := c.most.Load(); most != 1 {
		t.Errorf("%d fetches at once, want 1", most)
	}
}

func TestTwoProcessesFillAColdKeyOneAtATime(t *testing.T) {
	t.Parallel()
	var c crowd
	o := newOrigin(t).on("/cold", c.watch(after(300*time.Millisecond, page("Cache-Control: max-age=600"))))
	a, b := pair(t, o)
	fromA, fromB := background(t, a, 20, request("GET", "/cold")), background(t, b, 20, request("GET", "/cold"))
	for _, r := range append(fromA(), fromB()...) {
		if r.Err != nil || r.Status != http.StatusOK {
			t.Errorf("status %d, %v", r.Status, r.Err)
		}
	}
	if n := o.count("/cold"); n > 2 {
		t.Errorf("origin saw %d requests, want at most one for each process", n)
	}
	if most := c.most.Load(); most != 1 {
		t.Errorf("%d fetches at once, want 1", most)
	}
}

func TestAProcessThatDiesLosesItsClaim(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/k", page("Cache-Control: max-age=1, stale-while-revalidate=600"))
	a, b := pair(t, o)
	a.prime("/k")
	b.get("/k").want(t, http.StatusOK, version(2, "/k"))
	expire()
	g := newGate(t)
	o.on("/k", g.hold(page()))
	a.get("/k").want(t, http.StatusOK, version(1, "/k"))
	o.await("/k", 3)
	b.get("/k").want(t, http.StatusOK, version(2, "/k"))
	o.wantCalls("/k", 3)
	a.mayFail = true
	a.Kill()
	o.on("/k", page("Cache-Control: max-age=600"))
	b.awaitBody("/k", version(4, "/k"))
}
