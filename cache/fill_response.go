package cache

import (
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/swrproxy/swrproxy/fill"
	"github.com/swrproxy/swrproxy/internal/hopbyhop"
	"github.com/swrproxy/swrproxy/policy"
)

// confirmed freshens the base with a 304: RFC 9111 §4.3.4. If the base was invalidated meanwhile, or the 304 is about another
// response, it asks once more without condition.
func (fl *flight) confirmed(ev *FillEvent, resp *http.Response) fill.Outcome {
	now := time.Now()
	hopbyhop.Strip(resp.Header)
	stored := fl.base.Fields.Header()
	if !fl.baseHolds() || !fl.rule.settings.Selects(stored, resp.Header) {
		return fl.again(ev)
	}
	merged := policy.Freshen(stored, resp.Header)
	policy.EnsureDate(merged, now)
	adm := policy.Admit(&fl.rule.settings, &fl.preq, fl.base.Status, merged, fl.sentAt, now)
	if !adm.Store && adm.Reason != policy.ReasonNoFreshness {
		return fl.again(ev)
	}
	rec := fl.recordOf(fl.base.Status, merged, adm, now)
	rec.Body, rec.Trailer, rec.Partial = fl.base.Body, fl.base.Trailer, fl.base.Partial
	ev.Refreshed = true
	fl.commit(rec, merged, fl.base)
	fl.c.states.forget(fl.key)
	if !adm.Shareable {
		fl.c.states.mark(fl.key, now)
	}
	fl.head = head{record: rec, status: fl.base.Status, header: merged, admission: adm, at: now, outdated: fl.overtaken(merged)}
	fl.head.vary, fl.head.varyStar = policy.VaryOf(merged)
	close(fl.headReady)
	return fill.Outcome{Kind: fill.Stored}
}

// baseHolds tells whether the base is still stored and valid, invalidations considered. One that was replaced may have been purged before that.
func (fl *flight) baseHolds() bool {
	now, ok := fl.c.store.Get(fl.base.Key)
	return ok && now.Token == fl.base.Token && !fl.c.w.taken(now)
}

// again repeats the exchange without the base.
func (fl *flight) again(ev *FillEvent) fill.Outcome {
	fl.base = nil
	fl.req = fl.req.Clone(fl.ctx)
	policy.StripConditions(fl.req.Header)
	ev.Conditional = false
	return fl.fetch(ev)
}

// received deals with a response that is not a confirmation.
func (fl *flight) received(ev *FillEvent, resp *http.Response) fill.Outcome {
	now := time.Now()
	if !fl.here {
		hopbyhop.Strip(resp.Header)
	}
	policy.EnsureDate(resp.Header, now)
	h := head{
		status: resp.StatusCode, header: resp.Header, trailer: trailerNames(resp.Trailer), length: resp.ContentLength, at: now,
		admission: policy.Admit(&fl.rule.settings, &fl.preq, resp.StatusCode, resp.Header, fl.sentAt, now),
	}
	h.vary, h.varyStar = policy.VaryOf(resp.Header)
	h.failed = fl.countsAsFailure(&h, now)
	h.outdated = fl.overtaken(h.header)
	ev.Reason = h.admission.Reason
	switch {
	case resp.ContentLength > fl.c.object.Max:
		h.admission = policy.Admission{Reason: policy.ReasonTooLarge, Life: h.admission.Life}
	case h.admission.Store && !fl.c.room.fits(resp.ContentLength):
		h.admission = policy.Admission{Reason: policy.ReasonNoRoom, Life: h.admission.Life}
	case isStream(resp.Header):
		h.admission = policy.Admission{Reason: policy.ReasonStream, Life: h.admission.Life}
	}
	if !h.admission.Store {
		fl.c.refused.note(fl.primary, &h)
	}
	if !h.failed && !h.admission.Store && !h.admission.Shareable {
		return fl.unshared(ev, h, resp)
	}
	return fl.shared(ev, h, resp)
}

// isStream tells of responses that are neither stored nor shared although their fields may allow it: event streams, which never end, and
// what the origin asks not to be buffered.
func isStream(h http.Header) bool {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), "text/event-stream") || strings.EqualFold(h.Get("X-Accel-Buffering"), "no")
}

// countsAsFailure tells whether a response is treated as a failure of the origin: a server error, or 429, that either may not
// be stored or would replace a good record still within one of its windows.
func (fl *flight) countsAsFailure(h *head, now time.Time) bool {
	if h.status < 500 && h.status != http.StatusTooManyRequests {
		return false
	}
	if !h.admission.Store {
		return true
	}
	if fl.base == nil || policy.IsError(fl.base.Status) {
		return false
	}
	window := fl.baseLife.FreshFor + max(fl.baseLife.StaleFor, fl.baseLife.ErrorFor)
	return fl.baseLife.Age(now) < window
}

// unshared leaves the body to the reader who started the fill and sends everybody else to the origin. With no reader there it reads a
// part of the body itself, to tell an answer from a broken one.
func (fl *flight) unshared(ev *FillEvent, h head, resp *http.Response) fill.Outcome {
	if h.admission.Reason != policy.ReasonNoRoom {
		fl.c.states.mark(fl.key, h.at)
	}
	fl.head = h
	ev.Reason = h.admission.Reason
	if fl.offerBody(resp.Body, resp.Trailer) {
		close(fl.headReady)
		return fill.Outcome{Kind: fill.NotShareable}
	}
	close(fl.headReady)
	if fl.lease != nil {
		fl.lease.Announce()
	}
	defer resp.Body.Close()
	if _, err := io.CopyN(io.Discard, resp.Body, proofBytes); err != nil && err != io.EOF {
		return fl.broken(ev, fl.causeOf(err))
	}
	fl.dropReplaced(&h)
	return fill.Outcome{Kind: fill.NotShareable}
}

// proofBytes is how much of an unshared body without a reader is read to see that the answer is whole, or long.
const proofBytes = 256 << 10

// dropReplaced deletes the base when the origin now says that the resource is for nobody else, or gone: serving the old answer on,
// stale, would hide that.
func (fl *flight) dropReplaced(h *head) {
	if fl.base == nil || h.failed || fl.preq.Authorization {
		return
	}
	r := h.admission.Reason
	if r == policy.ReasonNoStore || r == policy.ReasonPrivate || h.status == http.StatusNotFound || h.status == http.StatusGone {
		fl.c.w.drop(fl.base, fl.token)
	}
}
