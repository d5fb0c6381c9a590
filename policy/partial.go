package policy

import (
	"net/http"
	"strconv"
	"strings"
)

// Partial says which bytes of a representation a 206 holds.
type Partial struct {
	// Start is the first byte's position.
	Start int64
	// End is the last byte's position, inclusive, as in Content-Range.
	End int64
	// Size is the length of the whole representation, −1 if unknown.
	Size int64
}

// Length is the number of bytes.
func (p Partial) Length() int64 { return p.End - p.Start + 1 }

// ParseContentRange reads "bytes first-last/size" (RFC 9110 §14.4). It refuses other units, the form of a 416, and
// what contradicts itself.
func ParseContentRange(v string) (Partial, bool) {
	unit, v, _ := strings.Cut(trimOWS(v), " ")
	span, total, ok := strings.Cut(v, "/")
	first, last, ok2 := strings.Cut(span, "-")
	if !ok || !ok2 || !strings.EqualFold(unit, "bytes") {
		return Partial{}, false
	}
	p := Partial{Size: -1}
	var okStart, okEnd bool
	p.Start, okStart = parsePosition(first)
	p.End, okEnd = parsePosition(last)
	if !okStart || !okEnd || p.End < p.Start {
		return Partial{}, false
	}
	if total != "*" {
		if p.Size, ok = parsePosition(total); !ok || p.End >= p.Size {
			return Partial{}, false
		}
	}
	return p, true
}

// Part says which bytes a complete 206 whose content has n bytes holds. ok is false when it is not usable: several
// parts, or a Content-Range that does not fit the content (RFC 9110 §15.3.7). With LenientPartial a content shorter
// than claimed is taken for what it is: it begins where it says, and if it claims to reach the end of the
// representation, the end is where it ends.
func (s *Settings) Part(h http.Header, n int64) (Partial, bool) {
	lines := h["Content-Range"]
	if len(lines) != 1 {
		return Partial{}, false
	}
	p, ok := ParseContentRange(lines[0])
	switch {
	case !ok || n <= 0:
		return Partial{}, false
	case n == p.Length():
		return p, true
	case !s.LenientPartial || n > p.Length():
		return Partial{}, false
	}
	if p.Size == p.End+1 {
		p.Size = p.Start + n
	}
	p.End = p.Start + n - 1
	return p, true
}

// SelectPart answers a Range field from the bytes of a partial response (RFC 9111 §3.3): only if everything that is
// asked for is there. The positions that it returns are of the whole representation. Without a known size only ranges
// with both positions can be answered.
func SelectPart(req, stored http.Header, p Partial) ([]ByteRange, bool) {
	size := p.Size
	if size < 0 {
		if !bounded(get(req, "Range")) {
			return nil, false
		}
		size = p.End + 1
	}
	ranges, result := SelectRange(req, stored, size)
	if result != RangeOK {
		return nil, false
	}
	for _, b := range ranges {
		if b.Start < p.Start || b.Start+b.Length-1 > p.End || p.Size < 0 && !within(get(req, "Range"), p.End) {
			return nil, false
		}
	}
	return ranges, true
}

// bounded reports a single range with both positions.
func bounded(v string) bool {
	_, set, _ := strings.Cut(v, "=")
	first, last, _ := strings.Cut(trimOWS(set), "-")
	_, ok := parsePosition(first)
	_, ok2 := parsePosition(last)
	return ok && ok2
}

// within reports that the last position of a bounded range is at most end.
func within(v string, end int64) bool {
	n, _ := parsePosition(v[strings.LastIndexByte(v, '-')+1:])
	return n <= end
}

// Missing returns the Range that asks for what a partial response lacks at one of its ends, and the If-Range that
// makes the origin send the whole representation if it has changed (RFC 9111 §3.4). ifRange is empty, and ok true
// only with CompleteUnvalidated, when the stored response has no strong validator.
func (s *Settings) Missing(stored http.Header, p Partial) (rangeField, ifRange string, ok bool) {
	ifRange, strong := strongETag(stored)
	if !strong && !s.CompleteUnvalidated {
		return "", "", false
	}
	switch {
	case p.Start == 0 && (p.Size < 0 || p.End+1 < p.Size):
		return "bytes=" + strconv.FormatInt(p.End+1, 10) + "-", ifRange, true
	case p.Start > 0 && p.Size == p.End+1:
		return "bytes=0-" + strconv.FormatInt(p.Start-1, 10), ifRange, true
	}
	return "", "", false
}

// Combines reports whether a 206 may be joined with a stored partial response (RFC 9111 §3.4): both have the same
// strong validator, agree on the size, and their bytes touch or overlap.
func Combines(stored, part http.Header, p, q Partial) bool {
	mine, ok := strongETag(stored)
	theirs, ok2 := strongETag(part)
	if !ok || !ok2 || mine != theirs || p.Size >= 0 && q.Size >= 0 && p.Size != q.Size {
		return false
	}
	return p.Start <= q.End+1 && q.Start <= p.End+1
}
