package policy

import "time"

// Use says how a stored response may be used. The zero value is not a use.
type Use uint8

const (
	_ Use = iota
	// Fresh: serve it, nothing else happens.
	Fresh
	// StaleWhileRevalidate: serve it and refresh it in the background.
	StaleWhileRevalidate
	// MustWait: fetch or validate first.
	MustWait
	// Bypass: forward, and store nothing.
	Bypass
)

var useNames = [...]string{"", "fresh", "stale-while-revalidate", "must-wait", "bypass"}

// String returns "fresh", "stale-while-revalidate", "must-wait" or "bypass".
func (u Use) String() string { return nameOf(useNames[:], int(u)) }

// Verdict is a use and its reason.
type Verdict struct {
	// Use says what to do.
	Use Use
	// Reason says why.
	Reason Reason
}

// Judge says how a stored response may be used for a request that it matches (RFC 9111 §4). It does not allocate. As
// now grows, the verdict never gets fresher. Whether a MustWait is answered with 504 instead of a fetch
// (only-if-cached, RFC 9111 §5.2.1.7) is the caller's step.
func Judge(l Life, req *Request, now time.Time) Verdict { return JudgeAge(&l, req, l.Age(now)) }

// JudgeAge is [Judge] for those who have worked out the response's current age already.
func JudgeAge(l *Life, req *Request, age time.Duration) Verdict {
	c := &req.Control
	switch {
	case l.has(NoCache):
		return Verdict{MustWait, ReasonNoCache}
	case c.NoCache:
		return Verdict{MustWait, ReasonRequestNoCache}
	case age < l.FreshFor:
		return judgeFresh(l, c, age)
	}
	return judgeStale(l, c, age)
}

// judgeFresh applies the request's limits to a fresh response (RFC 9111 §5.2.1.1, §5.2.1.3).
func judgeFresh(l *Life, c *RequestControl, age time.Duration) Verdict {
	switch {
	case c.MaxAge.Set && age > c.MaxAge.D && !l.has(Immutable):
		// RFC 8246 §2.1: a reload, which sends max-age=0, does not validate what is immutable; no-cache does.
		return Verdict{MustWait, ReasonRequestMaxAge}
	case c.MinFresh.Set && l.FreshFor-age < c.MinFresh.D:
		return Verdict{MustWait, ReasonRequestMinFresh}
	}
	return Verdict{Fresh, ReasonFresh}
}

// judgeStale looks for something that allows an expired response: the origin's or the rule's window, or the request
// (RFC 9111 §4.2.4). What forbids it comes first.
func judgeStale(l *Life, c *RequestControl, age time.Duration) Verdict {
	staleness := age - l.FreshFor
	switch {
	case l.forbidsStale():
		return Verdict{MustWait, ReasonMustRevalidate}
	case c.MinFresh.Set:
		return Verdict{MustWait, ReasonRequestMinFresh}
	case c.MaxAge.Set && (age > c.MaxAge.D || !c.MaxStale.Set):
		// RFC 9111 §5.2.1.1: max-age without max-stale means no stale response at all.
		return Verdict{MustWait, ReasonRequestMaxAge}
	case c.MaxStale.Set && staleness > c.MaxStale.D:
		return Verdict{MustWait, ReasonRequestMaxStale}
	case staleness < l.StaleFor:
		return Verdict{StaleWhileRevalidate, ReasonStaleWhileRevalidate}
	case l.has(MustRevalidate):
		return Verdict{MustWait, ReasonMustRevalidate}
	case c.MaxStale.Set:
		return Verdict{StaleWhileRevalidate, ReasonMaxStale}
	}
	return Verdict{MustWait, ReasonExpired}
}

// OnError says whether a stored response may answer when the origin failed: it could not be reached, did not answer
// in time, or answered 500, 502, 503 or 504 (RFC 5861 §4, RFC 9111 §4.2.4). The reason says what allows or forbids
// it.
//
// A response that is still fresh may answer, whatever made the cache ask the origin: no-cache and max-age in a
// request are preferences (RFC 9111 §5.2.1), and the alternative is an error.
func OnError(l Life, req *Request, now time.Time) (ok bool, r Reason) {
	if l.has(NoCache) {
		return false, ReasonNoCache
	}
	age := l.Age(now)
	if age < l.FreshFor {
		return true, ReasonFresh
	}
	if l.forbidsStale() {
		return false, ReasonMustRevalidate
	}
	staleness, c := age-l.FreshFor, &req.Control
	switch {
	case staleness < l.ErrorFor:
		return true, ReasonStaleIfError
	case staleness < l.StaleFor:
		return true, ReasonStaleWhileRevalidate
	case l.has(MustRevalidate):
		return false, ReasonMustRevalidate
	case c.StaleIfError.Set && staleness < c.StaleIfError.D:
		return true, ReasonStaleIfError
	case c.MaxStale.Set && staleness <= c.MaxStale.D:
		return true, ReasonMaxStale
	}
	return false, ReasonExpired
}
