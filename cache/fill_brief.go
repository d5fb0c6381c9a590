package cache

import (
	"context"
	"net/http"
	"time"

	"github.com/swrproxy/swrproxy/fill"
)

// promptSize is up to which length of fields and body a response is sent before it is committed: a prompt writer takes that and what is added to it.
const promptSize = 6 << 10

// prompt is a ResponseWriter that takes 8 KiB without waiting for the client. SendNow sends what was written so far, as far as that is possible without
// such a wait either.
type prompt interface {
	SendNow()
}

// patience is how long a reader's goroutine runs the fill that it started. Most responses are there by then, and a change of goroutines, there and
// back, would cost more than all that the cache does with a small one. A client that leaves in this time is noticed at its end.
const patience = 20 * time.Millisecond

// brief is a RoundTripper that can begin an exchange on one goroutine and end it on another, such as origin.Pool. RoundTripWithin
// returns a response only if all of it can be read without waiting, and without the fields of its connection; what takes longer than patience is left to rest, which is called once.
type brief interface {
	RoundTripWithin(req *http.Request, patience time.Duration) (resp *http.Response, rest restOf, err error)
}

// restOf ends an exchange; ctx takes the place of its request's context.
type restOf = func(ctx context.Context) (*http.Response, error)

// startHere is start for a fill that its reader waits for anyway: it begins on this goroutine, and ends here if the response comes whole before
// patience is over. Never called with a lock held.
func (c *Cache) startHere(lease *fill.Lease, rd *read) *flight {
	fl := c.newFlight(lease, rd, false)
	if via, ok := rd.briefly(); ok && fl.slotAtOnce() {
		fl.here, fl.slotted = true, true
		fl.prompt, _ = rd.w.(prompt)
		fl.ctx = valuesOf{c.base, rd.ctx}
		fl.req = rd.upstreamRequest(fl.ctx)
		if !c.enroll(fl) {
			fl.giveSlot()
			return fl
		}
		if fl.runHere(via) {
			return fl
		}
		fl.here = false
		fl.progress()
		fl.setContext(rd)
	} else {
		fl.prepare(rd)
		if !c.enroll(fl) {
			return fl
		}
	}
	c.runners.run(fl)
	return fl
}

// briefly returns what can begin this read's fill here: nothing can if the origin's answer may make another request due.
func (rd *read) briefly() (brief, bool) {
	if rd.found.rec != nil {
		return nil, false
	}
	p, ok := rd.up.(proxied)
	if !ok {
		return nil, false
	}
	via, ok := p.RoundTripper.(brief)
	return via, ok
}

// runHere is run on the reader's goroutine. False means that the exchange goes on, and the fill with it.
func (fl *flight) runHere(via brief) (over bool) {
	fl.begun()
	out := fl.guarded(func(ev *FillEvent) fill.Outcome {
		fl.sentAt = fl.startedAt
		resp, rest, err := via.RoundTripWithin(fl.req, fl.c.patience())
		if fl.rest = rest; rest != nil {
			return fill.Outcome{}
		}
		return fl.answered(ev, resp, err)
	})
	if fl.rest != nil {
		return false
	}
	fl.giveSlot()
	if fl.whole == nil {
		fl.end(out)
	}
	return true
}

// completesLater tells whether a response whose body has come can be left to completeHere, because its reader can have it first: what the commit takes is
// a part of the time that a reader alone waits for a small response. Who comes meanwhile waits for the commit. While other fills run the answers rather
// go out close together, see followOwn.
func (fl *flight) completesLater(resp *http.Response) bool {
	h := &fl.head
	return fl.here && fl.prompt != nil && h.admission.Store && !h.failed && resp.ContentLength >= 0 &&
		resp.ContentLength+sizeOf(h.header) <= promptSize && fl.c.flights.running() == 1
}

// sizeOf is about how long header's lines are.
func sizeOf(header http.Header) (n int64) {
	for name, values := range header {
		n += int64(linesSize(name, values))
	}
	return n
}

// completeHere commits what was left by completesLater, and ends the fill.
func (fl *flight) completeHere() {
	resp := fl.whole
	if resp == nil {
		return
	}
	fl.whole = nil
	out := fl.guarded(func(ev *FillEvent) fill.Outcome { return fl.complete(ev, resp) })
	fl.spool.finishWhole(resp.Trailer)
	fl.end(out)
}

// answeredAhead answers a reader who comes while a response is committed that another reader may have already: it finds what that one was told is stored.
func (rd *read) answeredAhead(fl *flight) bool {
	if err := fl.spool.finished(rd.ctx); err != nil {
		rd.clientGone()
	}
	return rd.answerIfServable(rd.lookAgain())
}

// answeredBehind is answeredAhead for a reader who would not wait for a fill. False also means that there is no such response.
func (rd *read) answeredBehind() bool {
	fl := rd.c.flights.get(rd.fillKey())
	return fl != nil && fl.committing.Load() && rd.answeredAhead(fl)
}

// commitsTake is for how long awaitCommits waits: a store that takes longer than this for a small record has trouble.
const commitsTake = 100 * time.Millisecond

// awaitCommits waits for what was called stored in an answer and is still to be committed: who has had that answer may purge it, or ask what is stored.
func (c *Cache) awaitCommits(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, commitsTake)
	defer cancel()
	for _, fl := range c.flights.committing() {
		_ = fl.spool.finished(ctx)
	}
}

// patience is the constant, but no considerable part of a tenure.
func (c *Cache) patience() time.Duration {
	if t := c.fillCfg.Tenure; t > 0 {
		return min(patience, max(t/4, 1))
	}
	return patience
}
