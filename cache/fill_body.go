package cache

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/swrproxy/swrproxy/fill"
	"github.com/swrproxy/swrproxy/policy"
)

// shared lets readers follow the body while it arrives, and commits it when it is whole.
func (fl *flight) shared(ev *FillEvent, h head, resp *http.Response) fill.Outcome {
	defer resp.Body.Close()
	h.spool = &fl.spool
	h.spool.memory = fl.c.room
	h.spool.open(fl.c.object.Max, resp.ContentLength, fl.c.spooler)
	fl.head = h
	fl.reserve(h.spool)
	later := fl.completesLater(resp)
	fl.committing.Store(later)
	if !h.failed && !h.admission.Shareable {
		fl.c.states.mark(fl.key, h.at)
	}
	close(fl.headReady)
	if fl.lease != nil && !fl.here { // else it is about to be settled
		fl.lease.Announce()
	}
	err := fl.copyBody(resp)
	ev.Bytes = h.spool.size()
	if err != nil {
		h.spool.finish(err)
		return fl.broken(ev, err)
	}
	if later {
		fl.whole = resp
		return fill.Outcome{}
	}
	out := fl.complete(ev, resp)
	h.spool.finishWhole(resp.Trailer)
	return out
}

// copyBody reads the body into the spool.
func (fl *flight) copyBody(resp *http.Response) error {
	s := fl.head.spool
	for {
		n, err := resp.Body.Read(s.room())
		if n > 0 {
			fl.progress()
			if s.advance(n) {
				fl.outgrown()
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fl.causeOf(err)
		}
		if !fl.here && !fl.throttled() { // here the reader comes when all has been read
			return errUnwatched
		}
		if !fl.head.admission.Store && !fl.watched() {
			return errUnwatched
		}
	}
}

// throttled waits for the slowest reader of a body that is not kept. Meanwhile the origin is not to blame that nothing comes: what bounds a reader is the
// server's limit on writes.
func (fl *flight) throttled() bool {
	fl.waits.Store(true)
	defer fl.waits.Store(false)
	defer fl.progress()
	return fl.head.spool.throttle(fl.ctx)
}

// outgrown tells the world that this body will not be stored after all: no new readers, and the waiting ones go their own way.
func (fl *flight) outgrown() {
	why := errCrowded
	if !fl.spool.noRoom() {
		fl.c.states.mark(fl.key, time.Now())
		why = errOversize
	}
	fl.c.flights.remove(fl)
	if fl.lease != nil {
		fl.settle(fill.Outcome{Kind: fill.NotShareable, Err: why})
	}
	fl.c.w.close(&fl.ticket) // its readers may take their time
}

// complete commits a whole body, or says why not.
func (fl *flight) complete(ev *FillEvent, resp *http.Response) fill.Outcome {
	h := &fl.head
	switch {
	case h.failed:
		return fl.failedStatus(ev, h)
	case h.spool.noRoom():
		ev.Reason = policy.ReasonNoRoom
		return fill.Outcome{Kind: fill.NotShareable, Err: errCrowded}
	case !h.spool.kept():
		ev.Reason = policy.ReasonTooLarge
		return fill.Outcome{Kind: fill.NotShareable, Err: errOversize}
	case !h.admission.Store:
		fl.dropReplaced(h)
		return fill.Outcome{Kind: fill.NotShareable}
	case h.admission.Shareable:
		fl.c.states.forget(fl.key)
	}
	body, err := h.spool.body()
	if err != nil {
		fl.c.obs.Noted(&Note{Kind: NoteStore, Key: fl.url(), Text: "body lost on its way into the store", Err: err})
		return fill.Outcome{Kind: fill.NotShareable, Err: err}
	}
	fl.store(h, body, resp.Trailer)
	return fill.Outcome{Kind: fill.Stored}
}

// store commits a whole response.
func (fl *flight) store(h *head, body Body, trailer http.Header) {
	if h.status == http.StatusPartialContent {
		fl.storePart(h, body)
		return
	}
	rec := fl.recordOf(h.status, h.header, h.admission, h.at)
	rec.Body = body
	if len(trailer) > 0 {
		rec.Trailer = NewLines(trailer)
	}
	fl.commit(rec, h.header, nil)
}

// failedStatus counts an error status that was passed on whole.
func (fl *flight) failedStatus(ev *FillEvent, h *head) fill.Outcome {
	now := time.Now()
	after, _ := policy.RetryAfter(h.header, now)
	ev.Retry = fl.c.states.failed(fl.key, fl.startedAt, now, after).Sub(now)
	if h.status == http.StatusGatewayTimeout {
		fl.c.states.hang(fl.key, now)
	}
	return fill.Outcome{Kind: fill.Failed, Err: fmt.Errorf("%w: %d", errStatusFail, h.status)}
}

// broken counts a body that broke off. Readers who have had a part of it see a broken transfer; nothing is stored.
func (fl *flight) broken(ev *FillEvent, err error) fill.Outcome {
	if fl.head.failed {
		return fl.failedStatus(ev, &fl.head)
	}
	if errors.Is(err, errUnwatched) {
		return fill.Outcome{Kind: fill.NotShareable, Err: err}
	}
	if !originFault(err) {
		return fill.Outcome{Kind: fill.Abandoned, Err: err}
	}
	ev.Retry = fl.failed(err, time.Now())
	return fill.Outcome{Kind: fill.Failed, Err: err}
}
