package policy

import "time"

// Forever is the largest time that a delta-seconds value can express; anything larger counts as this much.
// RFC 9111 §1.2.2 names 2^31 seconds as the value to use on overflow.
const Forever = time.Duration(1<<31) * time.Second

// Span is a delta-seconds value that may be absent (RFC 9111 §1.2.2). The zero value is "absent".
type Span struct {
	// D is the value; 0 when absent.
	D time.Duration
	// Set reports that the directive was there and could be understood.
	Set bool
}

// parseDelta reads delta-seconds: digits only, leading zeros allowed, larger values clamped to Forever
// (RFC 9111 §1.2.2). Signs, fractions, spaces and the empty string are not delta-seconds.
func parseDelta(s string) (time.Duration, bool) {
	if s == "" {
		return 0, false
	}
	var n int64
	for i := range len(s) {
		c := s[i] - '0'
		if c > 9 {
			return 0, false
		}
		if n < 1<<31 {
			n = n*10 + int64(c)
		}
	}
	return clampSeconds(n), true
}

// clampSeconds turns seconds into a span between 0 and Forever.
func clampSeconds(n int64) time.Duration {
	return time.Duration(min(max(n, 0), 1<<31)) * time.Second
}
