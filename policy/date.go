package policy

import (
	"net/http"
	"strings"
	"time"
)

// HTTPTime parses an HTTP-date in one of the three forms of RFC 9110 §5.6.7, in any letter case (RFC 9111 §4.2), and nothing else: one-digit
// hours, other zones and missing commas are not taken. Only the day's name is not held against the date. A two-digit
// year of the RFC 850 form that would lie more than 50 years ahead cannot be judged without a clock; years 69 to 99
// are read as 19xx, others as 20xx.
func HTTPTime(s string) (time.Time, bool) {
	if t, ok := exactTime(s); ok {
		return t, true
	}
	if len(s) > maxDate {
		return time.Time{}, false
	}
	proper := properCase(s)
	if proper == s {
		return time.Time{}, false
	}
	return exactTime(proper)
}

// maxDate is the length of the longest HTTP-date, one in September on a Wednesday in the form of RFC 850.
const maxDate = len("Wednesday, 06-Nov-94 08:49:37 GMT")

// properCase writes the names in a date as the grammar has them: GMT in capitals, others with a capital in front.
func properCase(s string) string {
	b := []byte(strings.ToLower(s))
	for i := range b {
		if b[i] >= 'a' && b[i] <= 'z' && (i == 0 || b[i-1] < 'A') {
			b[i] -= 'a' - 'A'
		}
	}
	if rest, ok := strings.CutSuffix(string(b), "Gmt"); ok {
		return rest + "GMT"
	}
	return string(b)
}

func exactTime(s string) (time.Time, bool) {
	layout, day := time.ANSIC, 3
	switch comma := strings.IndexByte(s, ','); {
	case comma == 3:
		return imfFixdate(s)
	case comma > 3:
		layout, day = "Monday, 02-Jan-06 15:04:05 GMT", comma
	case len(s) != len(time.ANSIC):
		return time.Time{}, false
	}
	t, err := time.Parse(layout, s)
	if err != nil || !isDayName(s[:day]) {
		return time.Time{}, false
	}
	// time.Parse takes more than the grammar has; what it read has to look the same when written.
	if written := t.Format(layout); written[strings.IndexAny(written, ", "):] != s[day:] {
		return time.Time{}, false
	}
	return t.UTC(), true
}

// isDayName reports a day's name, short or long, in the one case that the grammar has.
func isDayName(s string) bool {
	for d := time.Sunday; d <= time.Saturday; d++ {
		if name := d.String(); s == name || s == name[:3] {
			return true
		}
	}
	return false
}

// dateOf parses a singleton date field; several lines, or none, are no date.
func dateOf(h http.Header, canonical string) (time.Time, bool) {
	lines := h[canonical]
	if len(lines) != 1 {
		return time.Time{}, false
	}
	return HTTPTime(lines[0])
}

// EnsureDate sets Date to the time of reception when a response has none, or none that can be read, as a cache must
// before it stores or forwards one (RFC 9110 §6.6.1). It changes h.
func EnsureDate(h http.Header, receivedAt time.Time) {
	if _, ok := dateOf(h, "Date"); !ok {
		h["Date"] = []string{receivedAt.UTC().Format(http.TimeFormat)}
	}
}

// RetryAfter reads Retry-After as a span from now: delta-seconds or a date, never negative (RFC 9110 §10.2.3).
func RetryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	v := trimOWS(get(h, "Retry-After"))
	if d, ok := parseDelta(v); ok {
		return d, true
	}
	if at, ok := HTTPTime(v); ok {
		return min(max(at.Sub(now), 0), Forever), true
	}
	return 0, false
}
