package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/swrproxy/swrproxy/fill"
	"github.com/swrproxy/swrproxy/internal/hopbyhop"
	"github.com/swrproxy/swrproxy/policy"
)

// stallFactor times the tenure is how long a fill whose lease is over may go on without progress: a late result is still
// useful, a connection held for ever is not.
const stallFactor = 6

var (
	errStalled    = errors.New("cache: fill made no progress")
	errUnwatched  = errors.New("cache: nobody reads this response any more")
	errNoSlot     = errors.New("cache: all fill places of the origin are taken")
	errOversize   = errors.New("cache: body over object.max")
	errFillPanic  = errors.New("cache: fill panicked")
	errStatusFail = errors.New("cache: origin answered with an error status")
)

// start begins a fill in a goroutine of its own. lease is nil for a private fetch. The request is built here, on the reader's goroutine: once
// start returned, the fill touches nothing of the reader's.
func (c *Cache) start(lease *fill.Lease, rd *read, background bool) *flight {
	fl := c.newFlight(lease, rd, background)
	c.fills.Add(1)
	c.flights.begin(fl)
	if lease != nil {
		c.flights.put(fl)
	}
	go fl.run()
	return fl
}

func (c *Cache) newFlight(lease *fill.Lease, rd *read, background bool) *flight {
	fl := &flight{
		c:          c,
		rule:       rd.rule,
		lease:      lease,
		primary:    rd.key,
		target:     rd.target,
		preq:       rd.req,
		via:        rd.up,
		base:       rd.found.rec,
		baseLife:   rd.found.life,
		background: background,
		startedAt:  time.Now(),
		headReady:  make(chan struct{}),
		early:      make(chan earlyHints, 4),
	}
	if lease != nil {
		fl.key, fl.token = lease.Key(), lease.Token()
	} else {
		fl.key, fl.token = rd.fillKey(), c.seq.Next()
	}
	if !background {
		fl.readers = 1
	}
	fl.progressAt.Store(fl.startedAt.UnixNano())
	fl.setContext(rd)
	fl.req = rd.upstreamRequest(fl.ctx)
	return fl
}

// setContext detaches the fill from the reader's cancellation. A fill that a reader waits for keeps the values of the request's context,
// for tracing; a background fill keeps nothing of it.
func (fl *flight) setContext(rd *read) {
	parent := fl.c.base
	if !fl.background {
		parent = valuesOf{fl.c.base, rd.ctx}
	}
	fl.ctx, fl.cancel = context.WithCancelCause(parent)
	if t := fl.c.fillCfg.Timeout; t > 0 {
		timed, stop := context.WithTimeoutCause(fl.ctx, t, errStalled)
		context.AfterFunc(fl.ctx, stop)
		fl.ctx = timed
	}
	if !fl.background {
		fl.ctx = httptrace.WithClientTrace(fl.ctx, &httptrace.ClientTrace{Got1xxResponse: fl.got1xx})
	}
}

// valuesOf is the first context with the values of the second.
type valuesOf struct {
	context.Context
	values context.Context
}

func (v valuesOf) Value(key any) any {
	if x := v.Context.Value(key); x != nil {
		return x
	}
	return v.values.Value(key)
}

func (fl *flight) got1xx(status int, h textproto.MIMEHeader) error {
	select {
	case fl.early <- earlyHints{status, h}:
	default: // hints are optional: RFC 8297 §2
	}
	return nil
}

// run is the whole of a fill.
func (fl *flight) run() {
	ev := &FillEvent{
		Rule: fl.rule.name, Key: fl.key, URL: fl.url(),
		Background: fl.background, Conditional: fl.base != nil && fl.conditional(),
	}
	fl.c.obs.FillStarted(ev)
	out := fl.guarded(ev)
	fl.end(out, ev)
}

// url is the target without its query, for logs.
func (fl *flight) url() string {
	return fl.target.Scheme + "://" + fl.target.Authority + fl.target.Path
}

// guarded runs the exchange and turns a panic into an outcome. The one recover of the package.
func (fl *flight) guarded(ev *FillEvent) (out fill.Outcome) {
	defer func() {
		if p := recover(); p != nil {
			err := fmt.Errorf("%w: %v\n%s", errFillPanic, p, debug.Stack())
			fl.c.obs.Noted(&Note{Kind: NotePanic, Key: fl.url(), Text: "fill panicked", Err: err})
			out = fl.fail(ev, err)
		}
	}()
	stop := fl.watchLease()
	defer stop()
	release, err := fl.takeSlot()
	if err != nil {
		return fl.giveUp(err)
	}
	defer release()
	return fl.fetch(ev)
}

// end settles the lease and takes the flight out, in this order: whoever wakes finds the record, or the free key.
func (fl *flight) end(out fill.Outcome, ev *FillEvent) {
	fl.c.flights.remove(fl)
	if fl.lease != nil {
		fl.lease.Settle(out)
	}
	ev.Outcome, ev.Took = out, time.Since(fl.startedAt)
	fl.c.obs.FillDone(ev)
	fl.c.flights.end(fl)
	if fl.head.spool != nil || !fl.watched() {
		fl.cancel(context.Canceled)
	}
	fl.c.fills.Done()
}

// watchLease cancels the exchange when the lease ends in a way that makes its result worthless, and a fill that stalls.
func (fl *flight) watchLease() (stop func()) {
	stall := fl.watchStall()
	if fl.lease == nil {
		return stall
	}
	stopLease := context.AfterFunc(fl.lease.Context(), fl.leaseEnded)
	return func() {
		stopLease()
		stall()
	}
}

func (fl *flight) leaseEnded() {
	cause := context.Cause(fl.lease.Context())
	switch {
	case errors.Is(cause, fill.ErrTenureOver):
		now := time.Now()
		fl.c.states.failed(fl.key, fl.startedAt, now, 0)
		fl.c.obs.Noted(&Note{Kind: NoteTenure, Key: fl.url(), Text: "fill said nothing for its tenure; the key is free again", Err: cause})
	case errors.Is(cause, fill.ErrSuperseded), errors.Is(cause, fill.ErrLeaseLost):
		if !fl.watched() {
			fl.cancel(cause)
		}
	}
}

// watchStall cancels the exchange when no byte came for stallFactor tenures.
func (fl *flight) watchStall() (stop func()) {
	limit := stallFactor * fl.c.fillCfg.Tenure
	var t *time.Timer
	t = time.AfterFunc(limit, func() {
		idle := time.Since(time.Unix(0, fl.progressAt.Load()))
		if idle >= limit {
			fl.cancel(errStalled)
			return
		}
		t.Reset(limit - idle)
	})
	return func() { t.Stop() }
}

// takeSlot gets one of the origin's fill places: at once for a background fill, or not at all; else in turn. The claim on the key is
// kept while queueing.
func (fl *flight) takeSlot() (release func(), err error) {
	slots := fl.c.slotsOf(fl.rule.origin)
	if slots == nil {
		return func() {}, nil
	}
	if slots.TryAcquire(1) {
		return func() { slots.Release(1) }, nil
	}
	if fl.background {
		return nil, errNoSlot
	}
	stop := fl.renewing()
	defer stop()
	if err := slots.Acquire(fl.ctx, 1); err != nil {
		return nil, context.Cause(fl.ctx)
	}
	return func() { slots.Release(1) }, nil
}

// renewing keeps the lease while the fill queues.
func (fl *flight) renewing() (stop func()) {
	every := fl.c.fillCfg.Tenure / 3
	var t *time.Timer
	t = time.AfterFunc(every, func() {
		fl.progress()
		t.Reset(every)
	})
	return func() { t.Stop() }
}

// giveUp ends a fill that never reached the origin. It is no failure of the origin.
func (fl *flight) giveUp(err error) fill.Outcome {
	fl.head = head{err: err, at: time.Now()}
	close(fl.headReady)
	return fill.Outcome{Kind: fill.Abandoned, Err: err}
}

// fetch exchanges the request for a response and deals with it.
func (fl *flight) fetch(ev *FillEvent) fill.Outcome {
	sentAt := time.Now()
	resp, err := fl.via.RoundTrip(fl.req)
	if err != nil {
		return fl.fail(ev, fl.causeOf(err))
	}
	fl.progress()
	ev.Status = resp.StatusCode
	if resp.StatusCode == http.StatusNotModified && fl.base != nil && fl.conditional() {
		resp.Body.Close()
		return fl.confirmed(ev, resp, sentAt)
	}
	if fl.completing(resp) {
		return fl.completed(ev, resp)
	}
	return fl.received(ev, resp, sentAt)
}

// causeOf prefers the reason for which the fill itself was cancelled.
func (fl *flight) causeOf(err error) error {
	if cause := context.Cause(fl.ctx); cause != nil {
		return cause
	}
	return err
}

// conditional tells whether the fill's request carries the base's validator.
func (fl *flight) conditional() bool {
	return fl.req.Header.Get("If-None-Match") != "" || fl.req.Header.Get("If-Modified-Since") != ""
}

// confirmed freshens the base with a 304: RFC 9111 §4.3.4. If the base was invalidated meanwhile, or the 304 is about another
// response, it asks once more without condition.
func (fl *flight) confirmed(ev *FillEvent, resp *http.Response, sentAt time.Time) fill.Outcome {
	now := time.Now()
	hopbyhop.Strip(resp.Header)
	stored := fl.base.Fields.Header()
	if !fl.baseHolds() || !fl.rule.settings.Selects(stored, resp.Header) {
		return fl.again(ev)
	}
	merged := policy.Freshen(stored, resp.Header)
	policy.EnsureDate(merged, now)
	adm := policy.Admit(&fl.rule.settings, &fl.preq, fl.base.Status, merged, sentAt, now)
	if !adm.Store && adm.Reason != policy.ReasonNoFreshness {
		return fl.again(ev)
	}
	rec := fl.recordOf(fl.base.Status, merged, adm, now)
	rec.Body, rec.Trailer, rec.Partial = fl.base.Body, fl.base.Trailer, fl.base.Partial
	ev.Refreshed = true
	fl.replace(rec, merged)
	fl.c.states.forget(fl.key)
	if !adm.Shareable {
		fl.c.states.mark(fl.key, now)
	}
	fl.head = head{record: rec, status: fl.base.Status, header: merged, admission: adm, at: now}
	fl.head.vary, fl.head.varyStar = policy.VaryOf(merged)
	close(fl.headReady)
	return fill.Outcome{Kind: fill.Stored}
}

// replace commits a record made of the base. If Vary changed with it the base must not stay behind under its old key: RFC 9111 §4.3.4.
func (fl *flight) replace(rec *Record, merged http.Header) {
	before, _ := policy.VaryOf(fl.base.Fields.Header())
	if after, star := policy.VaryOf(merged); star || !slices.Equal(before, after) {
		fl.c.store.Delete(fl.base.Key, fl.token)
	}
	fl.commit(rec, merged)
}

// baseHolds tells whether the base is still stored and valid, invalidations considered.
func (fl *flight) baseHolds() bool {
	now, ok := fl.c.store.Get(fl.base.Key)
	return ok && now.Token >= fl.base.Token && !fl.c.taken(now)
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
func (fl *flight) received(ev *FillEvent, resp *http.Response, sentAt time.Time) fill.Outcome {
	now := time.Now()
	hopbyhop.Strip(resp.Header)
	policy.EnsureDate(resp.Header, now)
	h := head{
		status: resp.StatusCode, header: resp.Header, trailer: resp.Trailer, length: resp.ContentLength, at: now,
		admission: policy.Admit(&fl.rule.settings, &fl.preq, resp.StatusCode, resp.Header, sentAt, now),
	}
	h.vary, h.varyStar = policy.VaryOf(resp.Header)
	h.failed = fl.countsAsFailure(&h, now)
	ev.Reason = h.admission.Reason
	switch {
	case resp.ContentLength > fl.c.object.Max:
		h.admission = policy.Admission{Reason: policy.ReasonTooLarge, Life: h.admission.Life}
	case isStream(resp.Header):
		h.admission = policy.Admission{Reason: policy.ReasonStream, Life: h.admission.Life}
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

// unshared leaves the body to the reader who started the fill and sends everybody else to the origin.
func (fl *flight) unshared(ev *FillEvent, h head, resp *http.Response) fill.Outcome {
	fl.dropReplaced(&h)
	fl.c.states.mark(fl.key, h.at)
	fl.head = h
	if !fl.offerBody(resp.Body) {
		resp.Body.Close()
	}
	close(fl.headReady)
	ev.Reason = h.admission.Reason
	return fill.Outcome{Kind: fill.NotShareable}
}

// dropReplaced deletes the base when the origin's newer answer must not be stored: serving the old one on, stale, would
// hide that the resource changed.
func (fl *flight) dropReplaced(h *head) {
	if fl.base == nil || h.failed || fl.preq.Authorization {
		return
	}
	fl.c.store.Delete(fl.base.Key, fl.token)
}

// shared lets readers follow the body while it arrives, and commits it when it is whole.
func (fl *flight) shared(ev *FillEvent, h head, resp *http.Response) fill.Outcome {
	defer resp.Body.Close()
	h.spool = newSpool(fl.c.object.Max, resp.ContentLength, fl.c.spooler)
	fl.head = h
	if !h.failed && !h.admission.Store {
		fl.dropReplaced(&h)
	}
	if !h.failed && !h.admission.Shareable {
		fl.c.states.mark(fl.key, h.at)
	}
	close(fl.headReady)
	if fl.lease != nil {
		fl.lease.Announce()
	}
	err := fl.copyBody(resp)
	ev.Bytes = h.spool.size()
	if err != nil {
		h.spool.finish(err)
		return fl.broken(ev, err)
	}
	out := fl.complete(ev, resp)
	h.spool.finish(nil)
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
		if !s.throttle(fl.ctx) {
			return errUnwatched
		}
		if !fl.head.admission.Store && !fl.watched() {
			return errUnwatched
		}
	}
}

// outgrown tells the world that this body will not be stored after all: no new readers, and the waiting ones go their own way.
func (fl *flight) outgrown() {
	fl.c.states.mark(fl.key, time.Now())
	fl.c.flights.remove(fl)
	if fl.lease != nil {
		fl.lease.Settle(fill.Outcome{Kind: fill.NotShareable, Err: errOversize})
	}
}

// complete commits a whole body, or says why not.
func (fl *flight) complete(ev *FillEvent, resp *http.Response) fill.Outcome {
	h := &fl.head
	switch {
	case h.failed:
		return fl.failedStatus(ev, h)
	case !h.spool.kept():
		ev.Reason = policy.ReasonTooLarge
		return fill.Outcome{Kind: fill.NotShareable, Err: errOversize}
	case !h.admission.Store:
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
		rec.Trailer = NewFields(trailer)
	}
	fl.commit(rec, h.header)
}

// failedStatus counts an error status that was passed on whole.
func (fl *flight) failedStatus(ev *FillEvent, h *head) fill.Outcome {
	now := time.Now()
	after, _ := policy.RetryAfter(h.header, now)
	ev.Retry = fl.c.states.failed(fl.key, fl.startedAt, now, after).Sub(now)
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
	now := time.Now()
	ev.Retry = fl.c.states.failed(fl.key, fl.startedAt, now, 0).Sub(now)
	return fill.Outcome{Kind: fill.Failed, Err: err}
}

// originFault tells whether the origin is to blame for a failure, so that its key backs off. An error that knows says so itself.
func originFault(err error) bool {
	var knows interface{ OriginFault() bool }
	switch {
	case errors.Is(err, errFillPanic), errors.Is(err, ErrClosed), errors.Is(err, fill.ErrSuperseded):
		return false
	case errors.As(err, &knows):
		return knows.OriginFault()
	default:
		return true
	}
}

// fail ends a fill that got no response.
func (fl *flight) fail(ev *FillEvent, err error) fill.Outcome {
	now := time.Now()
	kind := fill.Abandoned
	if originFault(err) {
		kind = fill.Failed
		ev.Retry = fl.c.states.failed(fl.key, fl.startedAt, now, 0).Sub(now)
	}
	if !fl.ready() {
		fl.head = head{err: err, at: now}
		close(fl.headReady)
	} else if fl.head.spool != nil {
		fl.head.spool.finish(err)
	}
	return fill.Outcome{Kind: kind, Err: err}
}
