package policy

import "time"

// LifeFlags qualify a Life. Values are part of the on-disk format: never renumber.
type LifeFlags uint8

const (
	// MustRevalidate: never stale: must-revalidate, proxy-revalidate or s-maxage (RFC 9111 §5.2.2.2, §5.2.2.8,
	// §5.2.2.10).
	MustRevalidate LifeFlags = 1 << iota
	// NoCache: validate before each use (RFC 9111 §5.2.2.4).
	NoCache
	// Heuristic: FreshFor is a guess from Last-Modified (RFC 9111 §4.2.2).
	Heuristic
	// Immutable: does not change while fresh (RFC 8246 §2).
	Immutable
	// Explicit: FreshFor comes from the origin.
	Explicit
	// OriginStale: the origin itself gave the stale windows beside s-maxage; they count in spite of MustRevalidate.
	OriginStale
)

// Life is the time a stored response may be used for: one instant and spans from it. The zero value has expired.
// A value; copies are independent.
type Life struct {
	// BornAt is the instant at which the response's age was zero (RFC 9111 §4.2.3).
	BornAt time.Time
	// FreshFor is the freshness lifetime (RFC 9111 §4.2.1).
	FreshFor time.Duration
	// StaleFor is the stale-while-revalidate window, from the end of FreshFor (RFC 5861 §3).
	StaleFor time.Duration
	// ErrorFor is the stale-if-error window, from the end of FreshFor too (RFC 5861 §4).
	ErrorFor time.Duration
	// Flags qualify the spans.
	Flags LifeFlags
}

// Age is the response's current age, never negative (RFC 9111 §4.2.3).
func (l Life) Age(now time.Time) time.Duration { return max(now.Sub(l.BornAt), 0) }

// TTL is what remains of the freshness lifetime; negative once expired (RFC 9211 §2.4).
func (l Life) TTL(now time.Time) time.Duration { return l.FreshFor - l.Age(now) }

// Expire is the life after a soft purge at now: no longer fresh, the windows count from now, and every deadline is at
// most what it was. What is left of the lifetime is added to the age, so that a cache further down sees a stale
// answer as stale too (RFC 9111 §4.2.3). A response that must be revalidated, or validated always, may not be used at
// all without validation afterwards.
func (l Life) Expire(now time.Time) Life {
	if born := now.Add(-l.FreshFor); born.Before(l.BornAt) {
		l.BornAt = born
	}
	if l.Flags&(MustRevalidate|NoCache) != 0 {
		l.Flags = l.Flags&^OriginStale | NoCache
		l.StaleFor, l.ErrorFor = 0, 0
	}
	return l
}

// has reports a flag.
func (l *Life) has(f LifeFlags) bool { return l.Flags&f != 0 }

// forbidsStale reports that no stale window and no request can make this response usable after its lifetime.
func (l *Life) forbidsStale() bool {
	return l.has(NoCache) || l.Flags&(MustRevalidate|OriginStale) == MustRevalidate
}
