package integration

import (
	"net/http"
	"testing"
	"time"
)

// Promise: no origin can hold a record for longer than its tenure.

func TestRefreshThatHangsForEver(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	p := before(t, o)
	g := newGate(t)
	o.on("/hangs", page("Cache-Control: max-age=1, stale-while-revalidate=600"), g.hold(page()), page("Cache-Control: max-age=600"))
	p.prime("/hangs")
	expire()
	c := dial(t, p.Addr())
	read := func() { c.send(request("GET", "/hangs")).want(t, http.StatusOK, version(1, "/hangs")) }
	read()
	o.await("/hangs", 2)
	began := o.arrivals("/hangs")[1]

	// Throughout its tenure: stale at once, nobody else asks. A read that waited would not return.
	for time.Since(began) < tenure-500*time.Millisecond {
		read()
		time.Sleep(10 * time.Millisecond)
	}
	o.wantCalls("/hangs", 2)

	// After it: the next read, this one, starts exactly one new refresh.
	time.Sleep(time.Until(began.Add(tenure + 300*time.Millisecond)))
	o.wantCalls("/hangs", 2)
	read()
	o.await("/hangs", 3)
	p.awaitBody("/hangs", version(3, "/hangs"))
	o.wantCalls("/hangs", 3)
}

func TestRefreshThatOutlivesItsTenureComesTooLate(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	p := before(t, o)
	g := newGate(t)
	late := make(chan struct{})
	o.on("/late", page("Cache-Control: max-age=1, stale-while-revalidate=600"),
		func(w http.ResponseWriter, r *http.Request, n int) {
			g.hold(page("Cache-Control: max-age=600"))(w, r, n)
			close(late)
		},
		page("Cache-Control: max-age=600"))
	p.prime("/late")
	expire()
	p.get("/late").want(t, http.StatusOK, version(1, "/late"))
	o.await("/late", 2)
	time.Sleep(tenure + 200*time.Millisecond)
	p.get("/late").want(t, http.StatusOK, version(1, "/late"))
	o.await("/late", 3)
	p.awaitBody("/late", version(3, "/late"))
	g.open()
	<-late
	for range 100 {
		p.get("/late").want(t, http.StatusOK, version(3, "/late"))
	}
	o.wantCalls("/late", 3)
}

// LCK-01 on a cold key: the readers who waited elect one successor, and all are answered by it.
func TestWaitersOfALostHolderElectOneSuccessor(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	p := before(t, o)
	g := newGate(t)
	o.on("/lost", g.hold(page()), page("Cache-Control: max-age=600"))
	first := background(t, p, 1, request("GET", "/lost"))
	o.await("/lost", 1)
	waiters := background(t, p, 20, request("GET", "/lost"))
	wantAll(t, waiters(), http.StatusOK, version(2, "/lost"))
	o.wantCalls("/lost", 2)
	if took := percentile(waiters(), 1); took > within(tenure) {
		t.Errorf("slowest waiter took %v", took)
	}
	_ = first
}

// LCK-11: the tenure measures lack of progress. A transfer that goes on is fetched once however long it takes.
func TestLongTransferWithProgressIsFetchedOnce(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/long", trickle(10, 500*time.Millisecond, "Cache-Control: max-age=600"))
	p := before(t, o)
	first := background(t, p, 1, request("GET", "/long"))
	o.await("/long", 1)
	time.Sleep(tenure + 500*time.Millisecond)
	joiners := background(t, p, 3, request("GET", "/long"))
	wantAll(t, append(first(), joiners()...), http.StatusOK, trickled(10))
	o.wantCalls("/long", 1)
}
