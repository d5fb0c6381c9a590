package policy

// Reason says why a verdict or an admission is what it is. Its String is the word in Cache-Status, logs and metrics.
// The zero value says that there is no reason.
type Reason uint8

const (
	// ReasonFresh: the stored response is fresh (RFC 9111 §4.2).
	ReasonFresh Reason = iota + 1
	// ReasonStaleWhileRevalidate: expired, inside the window of RFC 5861 §3.
	ReasonStaleWhileRevalidate
	// ReasonStaleIfError: expired, the origin failed, inside the window of RFC 5861 §4.
	ReasonStaleIfError
	// ReasonMaxStale: expired, and the request accepts that (RFC 9111 §5.2.1.2).
	ReasonMaxStale
	// ReasonExpired: past its lifetime, and nothing allows serving it (RFC 9111 §4.2.4).
	ReasonExpired
	// ReasonMustRevalidate: expired, and must-revalidate, proxy-revalidate or s-maxage forbids stale use (RFC 9111
	// §4.2.4).
	ReasonMustRevalidate
	// ReasonNoCache: the response is to be validated on every use (RFC 9111 §5.2.2.4).
	ReasonNoCache
	// ReasonRequestNoCache: the request asks for validation (RFC 9111 §5.2.1.4, §5.4).
	ReasonRequestNoCache
	// ReasonRequestMaxAge: older than the request accepts (RFC 9111 §5.2.1.1).
	ReasonRequestMaxAge
	// ReasonRequestMinFresh: not fresh for as long as the request asks (RFC 9111 §5.2.1.3).
	ReasonRequestMinFresh
	// ReasonRequestMaxStale: staler than the request accepts (RFC 9111 §5.2.1.2).
	ReasonRequestMaxStale
	// ReasonRequestNoStore: the request asks that nothing is stored (RFC 9111 §5.2.1.5).
	ReasonRequestNoStore
	// ReasonNoStore: the response says no-store (RFC 9111 §5.2.2.5).
	ReasonNoStore
	// ReasonPrivate: the response says private (RFC 9111 §5.2.2.7).
	ReasonPrivate
	// ReasonSetCookie: the response sets a cookie and the rule refuses to store these.
	ReasonSetCookie
	// ReasonAuthorization: the request was authorised, and the response does not permit sharing (RFC 9111 §3.5).
	ReasonAuthorization
	// ReasonVaryStar: Vary matches no other request (RFC 9111 §4.1).
	ReasonVaryStar
	// ReasonNoFreshness: neither lifetime nor validator nor stale window; a stored copy could never be used.
	ReasonNoFreshness
	// ReasonStatus: responses with this status are not stored (RFC 9111 §3).
	ReasonStatus
	// ReasonMethod: responses to this method are not stored, or not reused (RFC 9111 §3).
	ReasonMethod
	// ReasonRange: a range request that cannot be answered from storage.
	ReasonRange
	// ReasonBody: a GET or HEAD with content (RFC 9110 §9.3.1).
	ReasonBody
	// ReasonPartial: partial content that is not stored or does not reach (RFC 9111 §3.3).
	ReasonPartial
	// ReasonOnlyIfCached: the request accepts only a stored response and there is none (RFC 9111 §5.2.1.7).
	ReasonOnlyIfCached
	// ReasonTooLarge: larger than an object may be.
	ReasonTooLarge
	// ReasonNotShareable: the key is marked: its answers are not shared for a while.
	ReasonNotShareable
	// ReasonKeyMiss: nothing is stored under the key.
	ReasonKeyMiss
	// ReasonVaryMiss: something is stored under the key, but no variant matches (RFC 9111 §4.1).
	ReasonVaryMiss
	// ReasonInvalidated: what was stored has been invalidated (RFC 9111 §4.4) or purged.
	ReasonInvalidated
	// ReasonUpgrade: the request may change the protocol (RFC 9110 §7.8).
	ReasonUpgrade
	// ReasonRule: the rule sends everything to the origin.
	ReasonRule
	// ReasonBadRequest: the request is malformed, or no rule is for it.
	ReasonBadRequest
	// ReasonRevalidated: the origin confirmed the stored response (RFC 9111 §4.3.4).
	ReasonRevalidated
	// ReasonCondition: a condition of the request is false (RFC 9110 §13.2.2).
	ReasonCondition
	// ReasonOriginFailed: the origin gave no usable answer.
	ReasonOriginFailed
	// ReasonWaitOver: another reader's fill took longer than a reader may wait.
	ReasonWaitOver
	// ReasonStream: the response has no end worth waiting for, such as an event stream.
	ReasonStream
	// ReasonNoRoom: too much memory is taken by other large bodies on their way into the store.
	ReasonNoRoom
	// ReasonClosing: the cache is being closed.
	ReasonClosing

	reasonCount
)

var reasonNames = [reasonCount]string{
	"", "fresh", "stale-while-revalidate", "stale-if-error", "max-stale", "expired", "must-revalidate", "no-cache",
	"request-no-cache", "request-max-age", "request-min-fresh", "request-max-stale", "request-no-store", "no-store", "private",
	"set-cookie", "authorization", "vary-star", "no-freshness", "status", "method", "range", "body", "partial",
	"only-if-cached", "too-large", "not-shareable", "key-miss", "vary-miss", "invalidated", "upgrade",
	"rule", "bad-request", "revalidated", "condition", "origin-failed", "wait-over", "stream", "no-room", "closing",
}

// String returns the reason's word, "" for the zero value.
func (r Reason) String() string { return nameOf(reasonNames[:], int(r)) }

// Reasons lists all reasons, for label sets and documentation.
func Reasons() []Reason {
	all := make([]Reason, 0, reasonCount-1)
	for r := Reason(1); r < reasonCount; r++ {
		all = append(all, r)
	}
	return all
}
