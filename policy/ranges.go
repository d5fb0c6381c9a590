package policy

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// ByteRange is a part of a representation, in bytes. Length is never 0.
type ByteRange struct {
	// Start is the first byte's position.
	Start int64
	// Length is the number of bytes.
	Length int64
}

// RangeResult says how a Range field is to be answered. The zero value is not a result.
type RangeResult uint8

const (
	_ RangeResult = iota
	// RangeNone: there is none, or it is to be ignored: answer 200.
	RangeNone
	// RangeOK: answer 206.
	RangeOK
	// RangeUnsatisfiable: answer 416 with Content-Range: bytes */size.
	RangeUnsatisfiable
)

var rangeNames = [...]string{"", "none", "ok", "unsatisfiable"}

// String returns "none", "ok" or "unsatisfiable".
func (r RangeResult) String() string { return nameOf(rangeNames[:], int(r)) }

const (
	// MaxRanges is the most parts that are served in one answer; a request for more is answered with the whole
	// representation (RFC 9110 §14.2, §17.15).
	MaxRanges = 32
	// maxOverlaps is how many ranges may overlap or touch one before them; more look like an attack (RFC 9110 §14.2).
	maxOverlaps = 2
	// coalesceGap is the gap in bytes up to which two parts are sent as one: the multipart overhead is about that
	// (RFC 9110 §15.3.7.2).
	coalesceGap = 80
)

// SelectRange answers the Range field of a GET from a stored representation of size bytes (RFC 9110 §14.2), after
// If-Range (§13.1.5). Parts are in the order of the request unless some were joined, then in order of position.
// Unknown units, malformed and abusive sets are ignored, as §14.2 allows.
func SelectRange(req, stored http.Header, size int64) ([]ByteRange, RangeResult) {
	lines := req["Range"]
	if len(lines) != 1 || size < 0 || !ifRangeHolds(req, stored) {
		return nil, RangeNone
	}
	unit, set, ok := strings.Cut(lines[0], "=")
	if !ok || !strings.EqualFold(trimOWS(unit), "bytes") {
		return nil, RangeNone
	}
	ranges, ok := parseRangeSet(set, size)
	switch {
	case !ok:
		return nil, RangeNone
	case len(ranges) == 0:
		return nil, RangeUnsatisfiable
	}
	return coalesce(ranges, size)
}

// parseRangeSet reads a range set; ok is false when a member is malformed or there are too many. Members that no byte
// satisfies are left out (RFC 9110 §14.1.2).
func parseRangeSet(set string, size int64) (ranges []ByteRange, ok bool) {
	seen := 0
	for set != "" {
		var spec string
		if spec, set = nextMember(set); spec == "" {
			continue
		}
		if seen++; seen > MaxRanges {
			return nil, false
		}
		b, valid := parseRangeSpec(spec, size)
		if !valid {
			return nil, false
		}
		if b.Length > 0 {
			ranges = append(ranges, b)
		}
	}
	return ranges, seen > 0
}

// parseRangeSpec reads "first-last", "first-" or "-suffix" (RFC 9110 §14.1.1, §14.1.2). A range that lies behind the
// end, and a suffix of 0, have Length 0.
func parseRangeSpec(spec string, size int64) (ByteRange, bool) {
	first, last, ok := strings.Cut(spec, "-")
	if !ok {
		return ByteRange{}, false
	}
	if first == "" {
		n, ok := parsePosition(last)
		n = min(n, size)
		return ByteRange{size - n, n}, ok
	}
	start, ok := parsePosition(first)
	if !ok {
		return ByteRange{}, false
	}
	end := size - 1
	if last != "" {
		n, ok := parsePosition(last)
		if !ok || n < start {
			return ByteRange{}, false
		}
		end = min(end, n)
	}
	return ByteRange{start, max(end-start+1, 0)}, true
}

// parsePosition reads digits; values that do not fit count as the largest.
func parsePosition(s string) (int64, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 63)
	if err != nil {
		return 1<<62 - 1, true
	}
	return n, true
}

// coalesce joins parts that overlap or nearly touch, and refuses sets that overlap too often.
func coalesce(ranges []ByteRange, size int64) ([]ByteRange, RangeResult) {
	sorted := slices.Clone(ranges)
	slices.SortStableFunc(sorted, func(a, b ByteRange) int { return cmp.Compare(a.Start, b.Start) })
	joined, overlaps := sorted[:1:1], 0
	for _, b := range sorted[1:] {
		prev := &joined[len(joined)-1]
		end := prev.Start + prev.Length
		if b.Start < end {
			overlaps++
		}
		if b.Start <= end+coalesceGap {
			prev.Length = max(end, b.Start+b.Length) - prev.Start
			continue
		}
		joined = append(joined, b)
	}
	switch {
	case overlaps > maxOverlaps:
		return nil, RangeNone
	case len(joined) == len(ranges):
		return ranges, RangeOK
	}
	return joined, RangeOK
}

// ifRangeHolds judges If-Range: an ETag must be strong and the same; a date must be exactly the stored Last-Modified
// and be a strong validator, which it is when the response was generated at least a second later (RFC 9110 §13.1.5,
// §8.8.2.2).
func ifRangeHolds(req, stored http.Header) bool {
	lines := req["If-Range"]
	if len(lines) == 0 {
		return true
	}
	if len(lines) > 1 {
		return false
	}
	if e, ok := parseETag(lines[0]); ok {
		mine, strong := strongETag(stored)
		return strong && !e.weak && e.tag == mine
	}
	since, ok := HTTPTime(lines[0])
	modified, hasModified := dateOf(stored, "Last-Modified")
	if !ok || !hasModified || !since.Equal(modified) {
		return false
	}
	date, ok := dateOf(stored, "Date")
	return ok && date.After(modified)
}

// ContentRange returns the value of Content-Range for a part of a representation of size bytes; with a Length of 0
// the value for 416 (RFC 9110 §14.4). A negative size is unknown and written as "*".
func ContentRange(b ByteRange, size int64) string {
	total := "*"
	if size >= 0 {
		total = strconv.FormatInt(size, 10)
	}
	if b.Length == 0 {
		return "bytes */" + total
	}
	return "bytes " + strconv.FormatInt(b.Start, 10) + "-" + strconv.FormatInt(b.Start+b.Length-1, 10) + "/" + total
}
