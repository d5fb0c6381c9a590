package policy

import "time"

// SetCookie says what becomes of a response that carries Set-Cookie.
type SetCookie uint8

const (
	// RefuseSetCookie does not store it.
	//
	// Deviation: RFC 9111 §7.3 lets a cache store it; a stored cookie given to all is the worst that a shared cache
	// can do, so storing is the operator's explicit choice.
	RefuseSetCookie SetCookie = iota
	// StripSetCookie stores it without Set-Cookie, so that hits carry no cookie.
	StripSetCookie
	// KeepSetCookie stores it whole and gives the cookie to every reader.
	KeepSetCookie
)

var setCookieNames = [...]string{"refuse", "strip", "keep"}

// String returns "refuse", "strip" or "keep".
func (s SetCookie) String() string { return nameOf(setCookieNames[:], int(s)) }

// Directives says how a rule treats the cache directives of requests.
type Directives uint8

const (
	// HonourDirectives lets a client ask for validation or for stale answers (RFC 9111 §5.2.1).
	HonourDirectives Directives = iota
	// IgnoreDirectives takes every request as if it had no Cache-Control and no Pragma. RFC 9111 §5.2.1 calls the
	// directives advice, so that a gateway may ignore them.
	IgnoreDirectives
)

var directivesNames = [...]string{"honour", "ignore"}

// String returns "honour" or "ignore".
func (d Directives) String() string { return nameOf(directivesNames[:], int(d)) }

// Settings is one rule's stale policy. The zero value is what the RFCs let a careful shared cache do.
// Not changed after it is in use; then safe for concurrent use.
type Settings struct {
	// TTL is the freshness lifetime of a response whose origin states none, for statuses that are cacheable by
	// default (RFC 9110 §15.1). 0: only heuristics from Last-Modified apply.
	TTL time.Duration
	// StatusTTL is the same for single status codes, of any kind; it wins over TTL. 0 means stale at once, negative
	// means that the status is not stored.
	StatusTTL map[int]time.Duration
	// Override makes TTL, StatusTTL, StaleWhileRevalidate and StaleIfError replace what the origin says, as far as
	// they are set. It never overrides no-store, private, Set-Cookie or Authorization.
	Override bool
	// StaleWhileRevalidate is the window in which an expired response is served while it is refreshed, when the
	// origin states none (RFC 5861 §3). It counts from expiry. 0: none.
	StaleWhileRevalidate time.Duration
	// StaleIfError is the window in which an expired response is served when the origin fails, when the origin states
	// none (RFC 5861 §4). It counts from expiry. 0: none.
	StaleIfError time.Duration
	// Heuristic is the fraction of the time since Last-Modified that a response without explicit freshness is fresh
	// for (RFC 9111 §4.2.2). 0: 0.1. Negative: no heuristic freshness.
	Heuristic float64
	// HeuristicMax bounds heuristic freshness. 0: 24 hours.
	HeuristicMax time.Duration
	// SetCookie says what becomes of responses with Set-Cookie.
	SetCookie SetCookie
	// Authorized stores answers to requests with Authorization as if they said public. Dangerous: only for origins
	// that use the field for something else than telling users apart.
	//
	// Deviation: RFC 9111 §3.5 forbids that without the origin's permission.
	Authorized bool
	// Directives says whether request directives count.
	Directives Directives
	// Targets are the names of targeted Cache-Control fields in order of preference (RFC 9213 §2.2). nil:
	// CDN-Cache-Control, swrproxy-Cache-Control. Empty but not nil: none.
	Targets []string

	// StorePartial lets 206 responses be stored, served and completed (RFC 9111 §3.3, §3.4).
	StorePartial bool
	// LenientPartial believes a 206 whose Content-Range claims more bytes than its complete content has: the first
	// position and the bytes count, and if it claims to reach the end of the representation, it does (see
	// Settings.Part).
	LenientPartial bool
	// CompleteUnvalidated asks for the missing bytes of a partial response that has no strong validator. Its parts
	// are never combined then; the request saves a transfer only if the origin answers 200 anyway (RFC 9111 §3.4).
	CompleteUnvalidated bool
	// StorePOST stores the 200 answer to a POST that has explicit freshness and a Content-Location equal to its
	// target, for later GETs (RFC 9110 §9.3.3, RFC 9111 §3).
	StorePOST bool
	// SelectLanguage lets a request reuse the stored response whose Content-Language is the one language that the
	// request's Accept-Language likes best, even when the request that it was made for differs (RFC 9111 §4.1; see
	// AppendLanguage).
	SelectLanguage bool
	// TrustNotModified lets a 304 update the stored response whose validator was sent, even if the 304 names another
	// ETag.
	//
	// Deviation: RFC 9111 §4.3.4 forbids that; the stored bytes may be older than what the 304 speaks of.
	TrustNotModified bool
	// UndatedNotModified answers 304 to If-Modified-Since with any past date when the stored response has neither
	// Last-Modified nor ETag.
	//
	// Deviation: RFC 9111 §4.3.2 compares with Date then; a client with an older copy is told that it is current, and
	// keeps it.
	UndatedNotModified bool
	// StrictAge takes a response whose Age is not one single non-negative integer as stale on arrival.
	//
	// Deviation: RFC 9111 §5.1 says to use the first member of a list and to ignore what is invalid.
	StrictAge bool
}

const (
	// defaultHeuristic is the fraction that RFC 9111 §4.2.2 calls typical.
	defaultHeuristic = 0.1
	// defaultHeuristicMax keeps a page that has not changed for years from being fresh for months.
	defaultHeuristicMax = 24 * time.Hour
)

// zeroSettings stands in where a caller passes nil.
var zeroSettings Settings

func nameOf(names []string, i int) string {
	if i < 0 || i >= len(names) {
		return "unknown"
	}
	return names[i]
}
