package policy

import (
	"net/http"
	"strings"
	"time"
)

// ageField reads Age. Of a list, or of several lines, the first member counts, without parameters, as a structured field would have
// it (RFC 9651 §3.3); a value that is not a non-negative integer is ignored (RFC 9111 §5.1). exact is false when anything but one integer was there.
func ageField(h http.Header) (age time.Duration, exact bool) {
	lines := h["Age"]
	if len(lines) == 0 {
		return 0, true
	}
	first, _, more := strings.Cut(lines[0], ",")
	value, _, parameter := strings.Cut(first, ";")
	age, ok := parseDelta(trimOWS(value))
	return age, ok && !more && !parameter && len(lines) == 1
}

// bornAt is the instant at which the response's age was zero (RFC 9111 §4.2.3). Date is in whole seconds, so the
// apparent age is counted in whole seconds too. It is none if Date is not before the second of the request: such a response was made
// while it was waited for, and the delay says more exactly when. A Date ahead of us counts as no age, one that is missing or
// unreadable as the time of reception.
func bornAt(h http.Header, requestAt, responseAt time.Time) time.Time {
	age, _ := ageField(h)
	correctedAge := age + max(responseAt.Sub(requestAt), 0)
	var apparentAge time.Duration
	if date, ok := dateOf(h, "Date"); ok && date.Before(requestAt.Truncate(time.Second)) {
		apparentAge = max(responseAt.Truncate(time.Second).Sub(date), 0)
	}
	return responseAt.Add(-min(max(apparentAge, correctedAge), Forever)).Round(0).UTC()
}
