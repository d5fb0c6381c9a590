package cache

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/swrproxy/swrproxy/fill"
	"github.com/swrproxy/swrproxy/internal/hopbyhop"
	"github.com/swrproxy/swrproxy/policy"
)

// maxLooks bounds how often a reader looks again after a wake-up before it goes to the origin itself.
const maxLooks = 16

// read is one request on its way: rule and key, look-up, verdict, then one of serve, wait, pass. It lives on its request's
// goroutine and is not used after the answer.
type read struct {
	c     *Cache
	w     http.ResponseWriter
	r     *http.Request
	ctx   context.Context
	up    upstream
	start time.Time

	rule   *rule
	target policy.Target
	req    policy.Request
	key    string
	found  found
	// spec overrides found.spec once a running fill showed that the key varies.
	spec      []string
	specKnown bool
	// seen is the fill that this reader waits for: it may share its response even if that is stale at once.
	seen *flight
	// collapsed means that the reader waited for a fill that it did not start.
	collapsed bool
	waitUntil time.Time

	status policy.CacheStatus
	ev     ReadEvent
}

// serve answers one request. It is the whole of design section "one read, step by step".
func (c *Cache) serve(w http.ResponseWriter, r *http.Request, up upstream) {
	rd := &read{c: c, w: w, r: withoutListed(r), ctx: r.Context(), up: up, start: time.Now()}
	defer rd.done()
	if !rd.resolve() {
		return
	}
	if reason, pass := rd.mustPass(); pass {
		rd.pass(reason)
		return
	}
	rd.found = c.lookup(&rd.rule.settings, rd.key, rd.r.Header)
	rd.decide()
}

// withoutListed returns the request without the fields that its Connection field lists: the origin does not see them, so they must not
// choose a key or a variant either (RFC 9110 §7.6.1).
func withoutListed(r *http.Request) *http.Request {
	lines := r.Header["Connection"]
	plain := func(v string) bool { return strings.EqualFold(v, "keep-alive") || strings.EqualFold(v, "close") }
	if !slices.ContainsFunc(lines, func(v string) bool { return !plain(v) }) || hopbyhop.UpgradeType(r.Header) != "" {
		return r
	}
	bare := *r
	bare.Header = r.Header.Clone()
	hopbyhop.DeleteListed(bare.Header, lines)
	return &bare
}

// done reports the request, whatever became of it.
func (rd *read) done() {
	rd.ev.Start = rd.start
	rd.ev.Took = time.Since(rd.start)
	rd.ev.Method, rd.ev.Proto, rd.ev.Remote = rd.r.Method, rd.r.Proto, rd.r.RemoteAddr
	rd.ev.Scheme, rd.ev.Host, rd.ev.Path, rd.ev.Query = rd.target.Scheme, rd.target.Authority, rd.target.Path, rd.target.RawQuery
	if rd.rule != nil {
		rd.ev.Rule = rd.rule.name
	}
	if rd.ctx.Err() != nil {
		rd.ev.ClientGone = true
	}
	rd.c.obs.ReadDone(&rd.ev)
}

// resolve finds the target, the rule and the key.
func (rd *read) resolve() bool {
	target, err := policy.NewTarget(rd.r, rd.c.scheme(rd.r))
	if err != nil {
		rd.refuse(http.StatusBadRequest, policy.ReasonBadRequest, err)
		return false
	}
	rd.target = target
	rd.rule = rd.c.rules.Load().find(&rd.target)
	if rd.rule == nil {
		rd.refuse(http.StatusMisdirectedRequest, policy.ReasonBadRequest, errNoRule)
		return false
	}
	if rd.rule.upstream != nil {
		rd.up = proxied{rd.rule.upstream}
	}
	rd.identify()
	return true
}

// identify reads the request's directives and builds its key.
func (rd *read) identify() {
	rd.req = policy.ReadRequest(rd.r, rd.rule.settings.Directives)
	rd.key = string(rd.rule.key.Append(make([]byte, 0, 256), &rd.target, rd.r.Header))
}

var errNoRule = errors.New("cache: no rule matches this request")

// mustPass tells whether the cache is not concerned with this request.
func (rd *read) mustPass() (policy.Reason, bool) {
	if rd.rule.pass || rd.c.closed.Load() {
		return policy.ReasonRule, true
	}
	return policy.Pass(&rd.req, &rd.rule.settings)
}

// decide acts on the verdict.
func (rd *read) decide() {
	if rd.found.rec == nil {
		rd.missed(rd.found.why)
		return
	}
	v := policy.Judge(rd.found.life, &rd.req, rd.start)
	if rd.found.rec.Partial != nil {
		if !rd.answeredPart(v) {
			rd.missed(policy.ReasonPartial)
		}
		return
	}
	switch v.Use {
	case policy.Fresh:
		rd.answer(rd.found.rec, ResultHit, v.Reason)
	case policy.StaleWhileRevalidate:
		rd.refresh()
		rd.answer(rd.found.rec, ResultStale, v.Reason)
	case policy.Bypass:
		rd.pass(v.Reason)
	default:
		rd.missed(v.Reason)
	}
}

// refresh makes the one attempt of a stale read to have its record refreshed. Busy or backing off: it does nothing more.
func (rd *read) refresh() {
	key := rd.fillKey()
	if rd.c.closed.Load() || rd.c.states.backingOff(key, rd.start) {
		return
	}
	if fl := rd.c.flights.get(key); fl != nil && !fl.stalled(rd.start) {
		return // still arriving, whatever became of its lease
	}
	lease, err := rd.c.keeper.TryAcquire(key)
	switch {
	case err == nil:
		rd.startBackground(lease)
	case !errors.Is(err, fill.ErrBusy):
		rd.c.obs.Noted(&Note{Kind: NoteKeeper, Key: rd.target.Path, Text: "lease keeper failed; stale is served", Err: err})
	}
}

// startBackground hands the lease to a background fill, after one more look: the previous holder may have finished between look-up
// and lease. If anything goes wrong before the fill runs, the lease is given back.
func (rd *read) startBackground(lease *fill.Lease) {
	started := false
	defer func() {
		if !started {
			lease.Settle(fill.Outcome{Kind: fill.Abandoned})
		}
	}()
	if now := rd.c.lookup(&rd.rule.settings, rd.key, rd.r.Header); now.rec != nil && now.rec.Token > rd.found.rec.Token {
		return
	}
	rd.c.start(lease, rd, true)
	started = true
}

// fillKey is the key that a fill of this request holds. Requests with credentials wait only for each other: what they get is
// most often for them alone.
func (rd *read) fillKey() fill.Key {
	id := rd.key
	switch {
	case rd.specKnown:
		id = variantKey(rd.key, rd.spec, rd.r.Header)
	case rd.found.known:
		id = variantKey(rd.key, rd.found.spec, rd.r.Header)
	}
	if rd.req.Authorization {
		id += "\xfeauthorized"
	}
	if rd.forwardsRange() {
		id += "\xferange " + rd.r.Header.Get("Range")
	}
	return fill.Key{Space: rd.rule.name, ID: strings.TrimPrefix(id, rd.rule.name)}
}

// missed is for a request that nothing stored can answer right now.
func (rd *read) missed(why policy.Reason) {
	rd.ev.Reason = why
	rd.status.Fwd = forwardReason(why, rd.found.rec != nil)
	switch {
	case rd.req.Control.OnlyIfCached:
		rd.refuse(http.StatusGatewayTimeout, policy.ReasonOnlyIfCached, nil)
	case rd.r.Method == http.MethodHead:
		rd.passHead()
	case rd.req.Control.NoStore:
		rd.direct()
	default:
		rd.await()
	}
}

// forwardReason is the RFC 9211 §2.2 token of a reason.
func forwardReason(why policy.Reason, have bool) policy.Fwd {
	switch {
	case why == policy.ReasonVaryMiss:
		return policy.FwdVaryMiss
	case why == policy.ReasonRequestNoCache, why == policy.ReasonRequestMaxAge:
		return policy.FwdRequest
	case why == policy.ReasonPartial:
		return policy.FwdPartial
	case have:
		return policy.FwdStale
	default:
		return policy.FwdURIMiss
	}
}

// await gets the answer from a fill: the running one, or one of its own. A wake-up means look again, never it is yours.
func (rd *read) await() {
	rd.waitUntil = rd.start.Add(rd.c.fillCfg.Wait)
	for range maxLooks {
		if rd.look() {
			return
		}
	}
	rd.direct()
}

// look is one round of await; false means that another is due.
func (rd *read) look() (answered bool) {
	key := rd.fillKey()
	now := time.Now()
	fl := rd.c.flights.get(key)
	switch {
	case fl == nil:
	case fl != rd.seen && fl.outdated():
		return rd.supersede(key)
	case fl.ready() && !fl.stalled(now) && rd.mayJoin(fl, now):
		return rd.join(fl)
	}
	if rd.c.states.marked(key, now) {
		rd.ev.Reason = policy.ReasonNotShareable
		rd.direct()
		return true
	}
	if rd.c.states.backingOff(key, now) && rd.answerOnError() {
		return true
	}
	lease, waiter, err := rd.c.keeper.Join(key)
	switch {
	case err != nil:
		rd.c.obs.Noted(&Note{Kind: NoteKeeper, Key: rd.target.Path, Text: "lease keeper failed; fetching without lease", Err: err})
		rd.direct()
		return true
	case lease != nil:
		return rd.lead(lease)
	default:
		return rd.waitFor(waiter, key)
	}
}

// mayJoin tells whether a response that is arriving may answer a reader who comes only now: it must be storable and fresh. Readers who
// waited for it may have it in any case: RFC 9111 §4.
func (rd *read) mayJoin(fl *flight, now time.Time) bool {
	if rd.seen == fl {
		return true
	}
	h := &fl.head
	return h.spool != nil && h.admission.Store && h.admission.Shareable && policy.Judge(h.admission.Life, &rd.req, now).Use == policy.Fresh
}

// lead runs the fill as its holder, after one more look: the previous holder may have committed between look-up and lease.
func (rd *read) lead(lease *fill.Lease) (answered bool) {
	started := false
	defer func() {
		if !started {
			lease.Settle(fill.Outcome{Kind: fill.Abandoned})
		}
	}()
	if rd.lookAgain() {
		return true
	}
	fl := rd.c.start(lease, rd, false)
	started = true
	defer fl.leave()
	rd.follow(fl)
	return true
}

// supersede takes the key from a fill that began before an invalidation: this reader came after it and must not get the old content.
func (rd *read) supersede(key fill.Key) (answered bool) {
	var fl *flight
	// Under the lock, so that of many readers one takes over and the others find its fill.
	withLock(&rd.c.commits[stripe(rd.key)], func() {
		if old := rd.c.flights.get(key); old == nil || !old.outdated() {
			return
		}
		lease, err := rd.c.keeper.Supersede(key)
		if err != nil {
			rd.c.obs.Noted(&Note{Kind: NoteKeeper, Key: rd.target.Path, Text: "lease keeper failed", Err: err})
			return
		}
		fl = rd.c.start(lease, rd, false)
	})
	if fl == nil {
		return false
	}
	defer fl.leave()
	rd.follow(fl)
	return true
}

// lookAgain answers from a record that came since the first look-up.
func (rd *read) lookAgain() (answered bool) {
	f := rd.c.lookup(&rd.rule.settings, rd.key, rd.r.Header)
	newer := f.rec != nil && (rd.found.rec == nil || f.rec.Token > rd.found.rec.Token)
	known := f.known && !rd.found.known
	if !newer && !known {
		return false
	}
	rd.found = f
	if !newer || f.rec.Partial != nil || policy.Judge(f.life, &rd.req, time.Now()).Use != policy.Fresh {
		return false
	}
	rd.status.Collapsed = rd.collapsed
	rd.answer(f.rec, resultOf(rd.collapsed, ResultHit), policy.ReasonFresh)
	return true
}

func resultOf(collapsed bool, otherwise Result) Result {
	if collapsed {
		return ResultCollapsed
	}
	return otherwise
}

// waitFor waits for one wake-up of the holder.
func (rd *read) waitFor(waiter *fill.Waiter, key fill.Key) (answered bool) {
	defer waiter.Cancel()
	place := rd.c.flights.watch(key)
	defer rd.c.flights.unwatch(key, place)
	rd.collapsed = true
	before := rd.c.flights.flightOf(place)
	late := before != nil && before.ready()
	out, err := rd.sleep(waiter)
	if err != nil {
		rd.clientGone()
		return true
	}
	if !late {
		rd.seen = rd.c.flights.flightOf(place)
	}
	switch out.Kind {
	case fill.WaitOver:
		rd.fail(errWaitOver, policy.ReasonWaitOver)
		return true
	case fill.Failed:
		return rd.shareFailure(out)
	case fill.NotShareable:
		if rd.seen != nil && rd.seen.ready() && rd.seen.head.shared() {
			return rd.join(rd.seen)
		}
		rd.ev.Reason = policy.ReasonNotShareable
		rd.direct()
		return true
	default:
		return rd.afterWake()
	}
}

var errWaitOver = errors.New("cache: the running fill took longer than fill.wait")

func (rd *read) sleep(waiter *fill.Waiter) (fill.Outcome, error) {
	rd.c.waiting.Add(1)
	defer rd.c.waiting.Add(-1)
	limit := time.Duration(0)
	if rd.c.fillCfg.Wait > 0 {
		limit = max(time.Until(rd.waitUntil), 1)
	}
	return waiter.Wait(rd.ctx, limit)
}

// shareFailure gives a waiter the failure that it waited for.
func (rd *read) shareFailure(out fill.Outcome) bool {
	if rd.seen != nil && rd.seen.ready() {
		return rd.join(rd.seen)
	}
	rd.fail(out.Err, policy.ReasonOriginFailed)
	return true
}

// afterWake looks in the cache and at the fill that was waited for.
func (rd *read) afterWake() (answered bool) {
	if rd.seen != nil && rd.seen.ready() {
		return rd.join(rd.seen)
	}
	return rd.lookAgain()
}

// join answers from a fill whose head is there, if its response suits this request; else the reader learns what the key varies on.
func (rd *read) join(fl *flight) (answered bool) {
	h := &fl.head
	switch {
	case h.err == nil && h.varyStar, h.err == nil && !h.shared():
		rd.ev.Reason = policy.ReasonNotShareable
		rd.direct()
		return true
	case h.err == nil && !fl.suits(rd.r.Header):
		rd.spec, rd.specKnown = h.vary, true
		rd.seen = nil
		rd.found = rd.c.lookup(&rd.rule.settings, rd.key, rd.r.Header)
		return rd.found.rec != nil && rd.answerIfFresh()
	case errors.Is(h.err, errNoSlot):
		rd.seen = nil
		return false // a background fill that never ran is nobody's failure
	}
	fl.enter()
	defer fl.leave()
	rd.collapsed = true
	return rd.followReady(fl)
}

func (rd *read) answerIfFresh() bool {
	if rd.found.rec.Partial != nil || policy.Judge(rd.found.life, &rd.req, time.Now()).Use != policy.Fresh {
		return false
	}
	rd.answer(rd.found.rec, resultOf(rd.collapsed, ResultHit), policy.ReasonFresh)
	return true
}

// direct fetches for this reader alone. What turns out to be storable is stored.
func (rd *read) direct() {
	rd.seen, rd.collapsed = nil, false
	fl := rd.c.start(nil, rd, false)
	defer fl.leave()
	rd.follow(fl)
}

// follow waits for the head of the reader's own fill and answers from it.
func (rd *read) follow(fl *flight) {
	for {
		select {
		case <-fl.headReady:
			if !rd.followReady(fl) {
				rd.fail(errOutgrown, policy.ReasonOriginFailed)
			}
			return
		case hint := <-fl.early:
			rd.passHints(hint)
		case <-rd.ctx.Done():
			rd.clientGone()
			return
		}
	}
}

var errOutgrown = errors.New("cache: the response outgrew what can be shared")

// passHints sends a 1xx on: RFC 9110 §15.2. The field values are those of the hint alone.
func (rd *read) passHints(hint earlyHints) {
	if rd.r.ProtoAtLeast(1, 1) {
		h := rd.w.Header()
		for name, values := range hint.header {
			h[name] = values
		}
		hopbyhop.Strip(h)
		rd.w.WriteHeader(hint.status)
		clear(h)
	}
}

// followReady answers from a fill whose head is there; false if its body can not be had any more.
func (rd *read) followReady(fl *flight) bool {
	h := &fl.head
	rd.status.Collapsed = rd.collapsed
	if h.status != 0 && !rd.collapsed {
		rd.status.FwdStatus = h.status
	}
	switch {
	case h.err != nil:
		rd.fail(h.err, policy.ReasonOriginFailed)
	case h.record != nil:
		rd.status.Stored = true
		rd.status.FwdStatus = http.StatusNotModified
		rd.answer(h.record, resultOf(rd.collapsed, ResultRevalidated), policy.ReasonRevalidated)
	case h.failed && rd.answerOnError():
	case h.failed && rd.collapsed && fl.personal():
		rd.reject(h.status, policy.ReasonOriginFailed, ResultError)
	case h.spool != nil:
		return rd.stream(fl)
	default:
		return rd.takeOver(fl)
	}
	return true
}

// answerOnError serves the stored response in place of a failure, where that is allowed: RFC 5861 §4, RFC 9111 §4.2.4.
func (rd *read) answerOnError() bool {
	if rd.found.rec == nil || rd.found.rec.Partial != nil {
		return false
	}
	ok, reason := policy.OnError(rd.found.life, &rd.req, time.Now())
	if ok {
		rd.answer(rd.found.rec, ResultStaleError, reason)
	}
	return ok
}

// fail answers a failure: stale where allowed, else with the status that fits its cause.
func (rd *read) fail(err error, why policy.Reason) {
	if rd.answerOnError() {
		return
	}
	rd.ev.Err = err
	status := statusOf(err)
	if rd.found.rec != nil && status == http.StatusBadGateway {
		status = http.StatusGatewayTimeout // validation was due and failed: RFC 9111 §5.2.2.2
	}
	rd.reject(status, why, ResultError)
}

// statusOf maps a failure to the status of RFC 9110 §15.6.3 and §15.6.5. An error that knows its own says so.
func statusOf(err error) int {
	var own interface{ StatusCode() int }
	switch {
	case errors.As(err, &own):
		return own.StatusCode()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, errStalled), errors.Is(err, errWaitOver):
		return http.StatusGatewayTimeout
	default:
		return http.StatusBadGateway
	}
}

// clientGone ends a read whose client went away: there is nobody to answer.
func (rd *read) clientGone() {
	rd.ev.ClientGone = true
	rd.ev.Result = resultOf(rd.collapsed, ResultMiss)
	rd.ev.Status = statusClientClosed
	panic(http.ErrAbortHandler)
}

// statusClientClosed is logged for a client that left before its answer began; it is never sent.
const statusClientClosed = 499

// upstreamRequest is what goes to the origin for this read: a copy that shares nothing with the client's request but what
// nobody changes.
func (rd *read) upstreamRequest(ctx context.Context) *http.Request {
	h := rd.r.Header.Clone()
	if h == nil {
		h = make(http.Header)
	}
	hopbyhop.Strip(h)
	policy.StripConditions(h)
	rd.setRange(h)
	if rd.found.rec != nil && rd.found.rec.Partial == nil {
		for name, values := range policy.Conditional(rd.found.rec.Fields.Header()) {
			h[name] = values
		}
	}
	req := &http.Request{
		Method: http.MethodGet, URL: rd.target.URL(), Host: rd.target.Authority, Header: h,
		Proto: rd.r.Proto, ProtoMajor: rd.r.ProtoMajor, ProtoMinor: rd.r.ProtoMinor,
		RemoteAddr: rd.r.RemoteAddr, TLS: rd.r.TLS,
	}
	return req.WithContext(ctx)
}
