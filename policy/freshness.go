package policy

import (
	"net/http"
	"time"
)

// freshness is a lifetime and where it comes from.
type freshness struct {
	d     time.Duration
	flags LifeFlags
	// stated reports that the origin or the rule gave the lifetime, also if it is 0.
	stated bool
	// control reports that it came from a directive, not from Expires or a guess.
	control bool
}

// lifetime is the freshness lifetime of a response (RFC 9111 §4.2.1): s-maxage, max-age, Expires; without these what
// the rule says, or a guess from Last-Modified. An operator's TTL comes before the guess. Garbage in Cache-Control,
// where a lifetime may have been meant, leaves no room for either: the response is stale (§4.2.1).
func (s *Settings) lifetime(c *responseControl, status int, h http.Header, responseAt time.Time) freshness {
	ttl, ruled := s.ttl(status)
	if ruled && s.Override {
		return freshness{d: ttl, stated: true, control: true}
	}
	if f := explicitLifetime(c, h, responseAt); f.stated {
		return f
	}
	if ruled && !c.invalid {
		return freshness{d: ttl, stated: true, control: true}
	}
	return s.heuristicLifetime(c, status, h, responseAt)
}

// explicitLifetime is what the origin states; what of it cannot be read means "stale" (RFC 9111 §4.2.1, §5.3).
func explicitLifetime(c *responseControl, h http.Header, responseAt time.Time) freshness {
	switch {
	case c.sMaxAge.Set:
		return freshness{d: c.sMaxAge.D, flags: Explicit, stated: true, control: true}
	case c.maxAge.Set:
		return freshness{d: c.maxAge.D, flags: Explicit, stated: true, control: true}
	case len(h["Expires"]) > 0 && !c.targeted:
		return freshness{d: expiresLifetime(h, responseAt), flags: Explicit, stated: true}
	}
	return freshness{}
}

// expiresLifetime is Expires − Date (RFC 9111 §4.2.1, §5.3). Of several lines the earliest counts; one that cannot be
// read, "0" in particular, lies in the past.
func expiresLifetime(h http.Header, responseAt time.Time) time.Duration {
	date, ok := dateOf(h, "Date")
	if !ok {
		date = responseAt
	}
	d := Forever
	for _, line := range h["Expires"] {
		at, ok := HTTPTime(line)
		if !ok {
			return 0
		}
		d = min(d, max(at.Sub(date), 0))
	}
	return d
}

// ttl is the rule's lifetime for a status, if it has one. A general TTL is for what is cacheable by default, so that
// it never stores errors that the origin did not mean to be stored.
func (s *Settings) ttl(status int) (time.Duration, bool) {
	if d, ok := s.StatusTTL[status]; ok {
		return min(max(d, 0), Forever), true
	}
	if s.TTL > 0 && cacheableByDefault(status) {
		return min(s.TTL, Forever), true
	}
	return 0, false
}

// heuristicLifetime is a fraction of the time since the last modification (RFC 9111 §4.2.2), for statuses that are
// cacheable by default or responses that say public.
func (s *Settings) heuristicLifetime(c *responseControl, status int, h http.Header, responseAt time.Time) freshness {
	if s.Heuristic < 0 || c.invalid || !cacheableByDefault(status) && !c.public {
		return freshness{}
	}
	modified, ok := dateOf(h, "Last-Modified")
	if !ok {
		return freshness{}
	}
	date, ok := dateOf(h, "Date")
	if !ok {
		date = responseAt
	}
	fraction, limit := s.Heuristic, s.HeuristicMax
	if fraction == 0 {
		fraction = defaultHeuristic
	}
	if limit <= 0 {
		limit = defaultHeuristicMax
	}
	d := min(time.Duration(float64(max(date.Sub(modified), 0))*min(fraction, 1)), limit, Forever)
	if d <= 0 {
		return freshness{}
	}
	return freshness{d: d, flags: Heuristic}
}

// life puts the lifetime, the stale windows and the age together.
func (s *Settings) life(c *responseControl, f freshness, status int, h http.Header, requestAt, responseAt time.Time) Life {
	l := Life{BornAt: bornAt(h, requestAt, responseAt), FreshFor: f.d, Flags: f.flags}
	if _, exact := ageField(h); s.StrictAge && !exact {
		l.FreshFor = 0
	}
	if c.immutable {
		l.Flags |= Immutable
	}
	ruled := f.stated && f.flags&Explicit == 0 && s.Override
	if ruled {
		// Deviation: an override takes over what the origin says about reuse, no-cache and must-revalidate included
		// (RFC 9111 §5.2.2.2, §5.2.2.4): the operator states a lifetime in its place.
		l.StaleFor, l.ErrorFor = s.ruleWindows(c, status, true)
		return l
	}
	s.windows(c, &l, status)
	return l
}

// windows sets the stale windows (RFC 5861 §3, §4) and what forbids them (RFC 9111 §4.2.4).
//
// Deviation: s-maxage implies proxy-revalidate (RFC 9111 §5.2.2.10), which forbids stale use, yet a window that the
// same response states explicitly is honoured: the origin addressed both to shared caches, and the window would mean
// nothing otherwise. must-revalidate, proxy-revalidate and no-cache forbid every window, explicit ones too.
func (s *Settings) windows(c *responseControl, l *Life, status int) {
	if c.noCache {
		l.Flags |= NoCache
	}
	forbidden := c.mustRevalidate || c.proxyRevalidate || c.noCache
	if c.mustRevalidate || c.proxyRevalidate || c.sMaxAge.Set {
		l.Flags |= MustRevalidate
	}
	switch {
	case forbidden:
	case c.sMaxAge.Set:
		l.StaleFor, l.ErrorFor = c.staleWhileRevalidate.D, c.staleIfError.D
		if l.StaleFor > 0 || l.ErrorFor > 0 {
			l.Flags |= OriginStale
		}
	default:
		l.StaleFor, l.ErrorFor = s.ruleWindows(c, status, s.Override)
	}
}

// ruleWindows chooses between the windows that the origin states and those of the rule. The rule's are for good
// answers: an expired error is not served in place of a new attempt or of a newer error.
func (s *Settings) ruleWindows(c *responseControl, status int, override bool) (staleFor, errorFor time.Duration) {
	if status >= http.StatusInternalServerError {
		return c.staleWhileRevalidate.D, 0
	}
	return window(c.staleWhileRevalidate, s.StaleWhileRevalidate, override), window(c.staleIfError, s.StaleIfError, override)
}

// window chooses between what the origin states and what the rule says.
func window(stated Span, rule time.Duration, override bool) time.Duration {
	if stated.Set && !(override && rule > 0) {
		return stated.D
	}
	return min(max(rule, 0), Forever)
}
