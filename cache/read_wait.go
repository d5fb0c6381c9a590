package cache

import (
	"errors"
	"time"

	"github.com/swrproxy/swrproxy/fill"
	"github.com/swrproxy/swrproxy/policy"
)

// maxLooks bounds how often a reader looks again after a wake-up before it goes to the origin itself.
const maxLooks = 16

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
	case fl.committing.Load():
		return rd.answeredAhead(fl)
	case fl.ready() && !fl.stalled(now) && rd.mayJoin(fl, now):
		return rd.join(fl)
	}
	if rd.c.states.marked(key, now) {
		rd.ev.Reason = policy.ReasonNotShareable
		rd.direct()
		return true
	}
	if rd.answeredInTrouble(key, now) {
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

// answeredInTrouble serves the stored response, where it may stand in for an error, without asking an origin that is known to be in trouble: while
// its key backs off, and after that while it is held to hang. Then one fill asks in the background, as for any stale read: an origin that does not
// answer in time is an error to RFC 5861 §4 (it would be a 504), and each reader in turn would wait as long to learn of the same one.
func (rd *read) answeredInTrouble(key fill.Key, now time.Time) bool {
	s := rd.c.states.get(key)
	switch {
	case now.Before(s.retryAt):
		return rd.answerOnError()
	case now.Before(s.hungUntil):
		if _, ok := rd.servableOnError(now); !ok {
			return false
		}
		rd.refresh(now)
		return rd.answerOnError()
	}
	return false
}

// mayJoin tells whether a response that is arriving may answer a reader who comes only now: it must be storable and fresh. Readers who
// waited for it, or were there before its fill began, may have it in any case: RFC 9111 §4.
func (rd *read) mayJoin(fl *flight, now time.Time) bool {
	if rd.seen == fl || !fl.startedAt.Before(rd.start) && fl.head.shared() {
		return true
	}
	h := &fl.head
	return h.spool != nil && h.spool.broken() == nil && h.admission.Store && h.admission.Shareable && policy.Judge(h.admission.Life, &rd.req, now).Use == policy.Fresh
}

// lead runs the fill as its holder, after one more look: the previous holder may have committed between look-up and lease.
func (rd *read) lead(lease *fill.Lease) (answered bool) {
	started := false
	defer func() {
		if !started {
			lease.Settle(fill.Outcome{Kind: fill.Abandoned})
		}
	}()
	var v policy.Verdict
	if rd.maybeOutdated() {
		v = rd.lookAgain()
	}
	switch v.Use {
	case policy.Fresh:
	case policy.StaleWhileRevalidate:
		rd.c.start(lease, rd, true)
		started = true
	default:
		fl := rd.c.startHere(lease, rd)
		started = true
		rd.followOwn(fl)
		return true
	}
	rd.answerFound(v)
	return true
}

// supersede takes the key from a fill that began before an invalidation: this reader came after it and must not get the old content.
func (rd *read) supersede(key fill.Key) (answered bool) {
	var fl *flight
	// Under the lock, so that of many readers one takes over and the others find its fill.
	rd.c.w.locked(rd.key, func() {
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
	defer fl.leaveFirst()
	rd.follow(fl)
	return true
}

// maybeOutdated tells whether something may have been committed under this key since the first look-up.
func (rd *read) maybeOutdated() bool {
	return !rd.c.local || rd.c.w.version(rd.key) != rd.version
}

// lookAgain judges a record that came since the last look-up; the zero verdict means that none did.
func (rd *read) lookAgain() policy.Verdict {
	f := rd.c.lookup(&rd.rule.settings, rd.key, rd.r.Header)
	newer := f.rec != nil && (rd.found.rec == nil || f.rec.Token > rd.found.rec.Token)
	if !newer && (!f.known || rd.found.known) {
		return policy.Verdict{}
	}
	rd.found = f
	if !newer {
		return policy.Verdict{}
	}
	return rd.judgeFound()
}

// judgeFound is the verdict on what was found, the zero one if that is not a whole record.
func (rd *read) judgeFound() policy.Verdict {
	if rd.found.rec == nil || rd.found.rec.Partial != nil || !rd.opened(rd.found.rec) {
		return policy.Verdict{}
	}
	return policy.Judge(rd.found.life, &rd.req, time.Now())
}

// answerFound serves what was found, for a verdict of Fresh or StaleWhileRevalidate.
func (rd *read) answerFound(v policy.Verdict) {
	rd.status.Collapsed = rd.collapsed
	result := resultOf(rd.collapsed, ResultHit)
	if v.Use != policy.Fresh {
		result = ResultStale
	}
	rd.answer(rd.found.rec, result, v.Reason)
}

// answerIfServable serves what was found if it is fresh, or stale inside its window, with one attempt to refresh it.
func (rd *read) answerIfServable(v policy.Verdict) bool {
	switch v.Use {
	case policy.Fresh:
	case policy.StaleWhileRevalidate:
		rd.refresh(time.Now())
	default:
		return false
	}
	rd.answerFound(v)
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
	if late && rd.mayJoin(before, time.Now()) {
		return rd.join(before) // its head came between the look and the wait; nothing more would be announced
	}
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
		return !late && rd.shareFailure(out) // what is known already this reader may have been told before: it asks again
	case fill.TenureOver:
		rd.c.states.hang(key, time.Now())
		return rd.afterWake()
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

// shareFailure gives a waiter the failure that it waited for. If that was of a fill of this process that had gone already, the reader came between the
// fill's last two steps, and asks again.
func (rd *read) shareFailure(out fill.Outcome) bool {
	switch {
	case rd.seen != nil && rd.seen.ready():
		return rd.join(rd.seen)
	case rd.c.local:
		return false
	default:
		rd.fail(out.Err, policy.ReasonOriginFailed)
		return true
	}
}

// afterWake looks in the cache and at the fill that was waited for.
func (rd *read) afterWake() (answered bool) {
	if rd.seen != nil && rd.seen.ready() {
		return rd.join(rd.seen)
	}
	return rd.answerIfServable(rd.lookAgain())
}

// join answers from a fill whose head is there, if its response suits this request; else the reader learns what the key varies on.
func (rd *read) join(fl *flight) (answered bool) {
	h := &fl.head
	switch {
	case fl.outdated():
		// A purge by tag came after the fill began; only the head told that the tag is this one's. The next look takes the key over.
		rd.seen = nil
		return false
	case h.err == nil && h.varyStar, h.err == nil && !h.shared():
		rd.ev.Reason = policy.ReasonNotShareable
		rd.direct()
		return true
	case h.err == nil && !fl.suits(rd.r.Header):
		rd.spec, rd.specKnown = h.vary, true
		rd.seen = nil
		rd.found = rd.c.lookup(&rd.rule.settings, rd.key, rd.r.Header)
		return rd.answerIfServable(rd.judgeFound())
	case h.err != nil && displaced(h.err):
		rd.seen = nil
		return false // the next look finds what took its place
	}
	fl.enter()
	defer fl.leave()
	rd.collapsed = true
	return rd.followReady(fl)
}
