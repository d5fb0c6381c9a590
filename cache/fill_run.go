package cache

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"runtime/debug"
	"time"

	"github.com/swrproxy/swrproxy/fill"
)

var (
	errStalled    = errors.New("cache: fill made no progress")
	errUnwatched  = errors.New("cache: nobody reads this response any more")
	errNoSlot     = errors.New("cache: all fill places of the origin are taken")
	errOversize   = errors.New("cache: body over object.max")
	errCrowded    = errors.New("cache: too many large bodies in memory at once")
	errFillPanic  = errors.New("cache: fill panicked")
	errBadStatus  = errors.New("cache: origin answered with a status that is none")
	errStatusFail = errors.New("cache: origin answered with an error status")
)

// start begins a fill in a goroutine of its own. lease is nil for a private fetch. The request is built here, on the reader's goroutine: once
// start returned, the fill touches nothing of the reader's.
func (c *Cache) start(lease *fill.Lease, rd *read, background bool) *flight {
	fl := c.newFlight(lease, rd, background)
	fl.prepare(rd)
	if c.enroll(fl) {
		c.runners.run(fl)
	}
	return fl
}

// errNotBegun is the failure of a fill that came too late: the cache is closed.
var errNotBegun = fmt.Errorf("%w: no fill begins any more", ErrClosed)

// enroll counts a fill among the running ones, until end, and opens its ticket. A closed cache lets none begin: the fill has failed then, and its lease is
// given back.
func (c *Cache) enroll(fl *flight) bool {
	if !c.work.enter() {
		fl.head = head{err: errNotBegun, at: time.Now()}
		close(fl.headReady)
		if fl.lease != nil {
			fl.lease.Settle(fill.Outcome{Kind: fill.Abandoned, Err: errNotBegun})
		}
		fl.stop(errNotBegun)
		return false
	}
	c.w.open(&fl.ticket, fl.token)
	c.flights.begin(fl)
	if fl.lease != nil {
		c.flights.put(fl)
	}
	return true
}

func (c *Cache) newFlight(lease *fill.Lease, rd *read, background bool) *flight {
	fl := c.flights.fresh()
	fl.c, fl.rule, fl.lease, fl.via = c, rd.rule, lease, rd.up
	fl.primary, fl.target, fl.preq = rd.key, rd.target, rd.req
	fl.base, fl.baseLife = rd.found.rec, rd.found.life
	fl.background, fl.alone = background, background
	fl.startedAt, fl.headReady = time.Now(), make(chan struct{})
	fl.blank, fl.version = rd.found.blank && c.local, rd.version
	if lease != nil {
		fl.key, fl.token = lease.Key(), lease.Token()
	} else {
		fl.key, fl.token = rd.fillKey(), c.seq.Next()
	}
	if !background {
		fl.readers = 1
	}
	fl.progressAt.Store(fl.startedAt.UnixNano())
	return fl
}

// prepare makes the request of a fill that has a goroutine of its own.
func (fl *flight) prepare(rd *read) {
	fl.setContext(rd)
	fl.req = rd.upstreamRequest(fl.ctx)
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
		fl.early = make(chan earlyHints, 4)
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

// run is the whole of a fill, or what runHere left of it.
func (fl *flight) run() {
	if fl.rest == nil {
		fl.begun()
	}
	watch := fl.c.watch(fl)
	out := fl.guarded(fl.fetchInTurn)
	watch.stop()
	fl.end(out)
}

// begun reports the fill's beginning.
func (fl *flight) begun() {
	fl.ev = FillEvent{
		Rule: fl.rule.name, Key: fl.key, URL: fl.url(),
		Background: fl.background, Conditional: fl.base != nil && fl.conditional(),
	}
	fl.c.obs.FillStarted(&fl.ev)
}

// url is the target without its query, for logs.
func (fl *flight) url() string {
	return fl.target.Scheme + "://" + fl.target.Authority + fl.target.Path
}

// guarded runs a step of the fill and turns a panic into an outcome. The one recover of the package.
func (fl *flight) guarded(step func(*FillEvent) fill.Outcome) (out fill.Outcome) {
	defer func() {
		if p := recover(); p != nil {
			err := fmt.Errorf("%w: %v\n%s", errFillPanic, p, debug.Stack())
			fl.c.obs.Noted(&Note{Kind: NotePanic, Key: fl.url(), Text: "fill panicked", Err: err})
			out = fl.fail(&fl.ev, err)
		}
	}()
	return step(&fl.ev)
}

// fetchInTurn fetches in one of the origin's fill places.
func (fl *flight) fetchInTurn(ev *FillEvent) fill.Outcome {
	if !fl.slotted {
		if err := fl.takeSlot(); err != nil {
			return fl.giveUp(err)
		}
	}
	defer fl.giveSlot()
	return fl.fetch(ev)
}

// end settles the lease and takes the flight out, in this order: whoever wakes finds the record, or the free key.
func (fl *flight) end(out fill.Outcome) {
	fl.c.flights.remove(fl)
	if fl.lease != nil {
		fl.settle(out)
	}
	fl.ev.Outcome, fl.ev.Took = out, time.Since(fl.startedAt)
	fl.c.obs.FillDone(&fl.ev)
	fl.c.flights.end(fl)
	fl.c.w.close(&fl.ticket)
	if fl.head.spool != nil || !fl.watched() {
		fl.stop(context.Canceled)
	}
	fl.c.work.leave()
}

// giveUp ends a fill that never reached the origin. It is no failure of the origin.
func (fl *flight) giveUp(err error) fill.Outcome {
	fl.head = head{err: err, at: time.Now()}
	close(fl.headReady)
	return fill.Outcome{Kind: fill.Abandoned, Err: err}
}

// fetch exchanges the request for a response and deals with it.
func (fl *flight) fetch(ev *FillEvent) fill.Outcome {
	resp, err := fl.exchange()
	return fl.answered(ev, resp, err)
}

// exchange sends the request and waits for the head, or for the rest of an exchange that runHere began.
func (fl *flight) exchange() (*http.Response, error) {
	if rest := fl.rest; rest != nil {
		fl.rest = nil
		return rest(fl.ctx)
	}
	fl.sentAt = time.Now()
	return fl.via.RoundTrip(fl.req)
}

// answered deals with the result of an exchange.
func (fl *flight) answered(ev *FillEvent, resp *http.Response, err error) fill.Outcome {
	if err != nil {
		return fl.fail(ev, fl.causeOf(err))
	}
	fl.progress()
	fl.c.states.heard(fl.key)
	if resp.StatusCode < 200 || resp.StatusCode > 999 || resp.StatusCode == http.StatusNotModified && !fl.asked() {
		resp.Body.Close()
		return fl.fail(ev, fmt.Errorf("%w: %d", errBadStatus, resp.StatusCode))
	}
	ev.Status = resp.StatusCode
	if resp.StatusCode == http.StatusNotModified {
		resp.Body.Close()
		return fl.confirmed(ev, resp)
	}
	if fl.completing(resp) {
		return fl.completed(ev, resp)
	}
	return fl.received(ev, resp)
}

// stop ends what of the fill goes on. A fill that ran on its reader's goroutine has nothing to end.
func (fl *flight) stop(cause error) {
	if fl.cancel != nil {
		fl.cancel(cause)
	}
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

// asked tells whether a 304 answers this fill's own condition. Any other confirms nothing that is known here.
func (fl *flight) asked() bool { return fl.base != nil && fl.conditional() }

// originFault tells whether the origin is to blame for a failure, so that its key backs off. An error that knows says so itself.
func originFault(err error) bool {
	var knows interface{ OriginFault() bool }
	switch {
	case errors.Is(err, errFillPanic), errors.Is(err, ErrClosed), displaced(err):
		return false
	case errors.As(err, &knows):
		return knows.OriginFault()
	default:
		return true
	}
}

// displaced tells of fills that ended because something newer took their place, or that never ran: that is nobody's failure.
func displaced(err error) bool {
	return errors.Is(err, errNoSlot) || errors.Is(err, errNotBegun) || errors.Is(err, fill.ErrSuperseded) || errors.Is(err, fill.ErrLeaseLost)
}

// failed counts a failure of the origin, and tells how long its key is left alone.
func (fl *flight) failed(err error, now time.Time) (retry time.Duration) {
	retryAt := fl.c.states.failed(fl.key, fl.startedAt, now, 0)
	if isTimeout(err) {
		fl.c.states.hang(fl.key, now)
	}
	return retryAt.Sub(now)
}

// isTimeout tells whether a failure is that nothing came in time.
func isTimeout(err error) bool {
	timed, ok := errors.AsType[net.Error](err)
	return ok && timed.Timeout() || errors.Is(err, fill.ErrTenureOver) || statusOf(err) == http.StatusGatewayTimeout
}

// fail ends a fill that got no response.
func (fl *flight) fail(ev *FillEvent, err error) fill.Outcome {
	now := time.Now()
	kind := fill.Abandoned
	if originFault(err) {
		kind = fill.Failed
		ev.Retry = fl.failed(err, now)
	}
	if !fl.ready() {
		fl.head = head{err: err, at: now}
		close(fl.headReady)
	} else if fl.head.spool != nil {
		fl.head.spool.finish(err)
	}
	return fill.Outcome{Kind: kind, Err: err}
}
