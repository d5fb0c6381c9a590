package cache

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"time"

	"github.com/swrproxy/swrproxy/internal/hopbyhop"
	"github.com/swrproxy/swrproxy/policy"
)

// direct fetches for this reader alone. What turns out to be storable is stored.
func (rd *read) direct() {
	rd.seen, rd.collapsed = nil, false
	rd.followOwn(rd.c.startHere(nil, rd))
}

// followOwn answers from the fill that startHere began for this read, which knows nothing of it afterwards.
func (rd *read) followOwn(fl *flight) {
	func() {
		defer fl.leaveFirst()
		defer fl.completeHere() // if the reader did not come so far
		rd.follow(fl)
	}()
	rd.own = nil
	if fl.here {
		rd.c.flights.recycle(fl)
		runtime.Gosched() // so that the answers of several readers go out close together: waking a peer for each costs more
	}
}

// follow waits for the head of the reader's own fill and answers from it.
func (rd *read) follow(fl *flight) {
	rd.own = fl
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
	case h.err == errNotBegun: //nolint:errorlint // this very one
		rd.pass(policy.ReasonClosing)
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
	reason, ok := rd.servableOnError(time.Now())
	if !ok || !rd.opened(rd.found.rec) {
		return false
	}
	rd.answer(rd.found.rec, ResultStaleError, reason)
	return true
}

// servableOnError tells whether what was found may be served in place of a failure, and what allows it.
func (rd *read) servableOnError(now time.Time) (why policy.Reason, ok bool) {
	if rd.found.rec == nil || rd.found.rec.Partial != nil {
		return 0, false
	}
	ok, why = policy.OnError(rd.found.life, &rd.req, now)
	return why, ok
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
