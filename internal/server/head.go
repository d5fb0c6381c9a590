package server

import (
	"bytes"
	"math"
)

// framing is how a request's body is delimited. A closed enum.
type framing uint8

const (
	// framingUnknown is the zero value: the head was refused.
	framingUnknown framing = iota
	// framingNone is a request without a body.
	framingNone
	// framingLength is a body of a known number of bytes.
	framingLength
	// framingChunked is a chunked body.
	framingChunked
	// framingTunnel is not a request but the HTTP/2 preface (RFC 9113 §3.4): everything from here on is somebody else's.
	framingTunnel
)

// head is what the connection must know of a request's head.
type head struct {
	framing framing
	length  int64
}

var preface = []byte("PRI * HTTP/2.0\r\n\r\n")

// headEnd finds the empty line that ends a head in b, where the lines before from are known not to hold it, and
// returns the head's length, or 0. next is where to begin another time, with the same bytes or more of them.
func headEnd(b []byte, from int) (end, next int) {
	for {
		i := bytes.IndexByte(b[from:], '\n')
		if i < 0 {
			return 0, from
		}
		line := from
		from += i + 1
		if i == 0 || (i == 1 && b[line] == '\r') {
			return from, line
		}
	}
}

// maxEmptyLines is how many empty lines may come before a request line. Two are enough for every client that was ever seen.
const maxEmptyLines = 2

// skipEmptyLines returns how many empty lines, up to most, b begins with: RFC 9112 §2.2 asks to ignore them before a request line.
func skipEmptyLines(b []byte, most int) int {
	n := 0
	for n < most && bytes.HasPrefix(b[n*len(crlf):], crlf) {
		n++
	}
	return n
}

// plausibleStart tells whether b may still become a request line, so that garbage is turned down at its first byte
// and not at the header timeout.
func plausibleStart(b []byte) bool {
	for i, c := range b[:min(len(b), maxMethod+1)] {
		if c == ' ' {
			return i > 0
		}
		if !isToken[c] {
			return i == 0 && c == '\r'
		}
	}
	return len(b) <= maxMethod
}

// maxMethod is the longest method name let through; the longest registered one has 17 bytes.
const maxMethod = 64

var crlf = []byte("\r\n")

// scanHead checks a whole head, empty line included, and says how its body is framed. What passes here is framed the
// same way by net/http, or refused there.
func scanHead(b []byte) (head, refusal) {
	if bytes.Equal(b, preface) {
		return head{framing: framingTunnel}, refusalNone
	}
	line, rest, ok := cutLine(b)
	if !ok {
		return head{framing: framingUnknown}, refusalSyntax
	}
	old, ok := scanRequestLine(line)
	if !ok {
		return head{framing: framingUnknown}, refusalSyntax
	}
	f := fieldScan{old: old}
	for {
		line, rest, ok = cutLine(rest)
		if !ok {
			return head{framing: framingUnknown}, refusalSyntax
		}
		if len(line) == 0 && len(rest) == 0 {
			return f.finish()
		}
		if r := f.line(line); r != refusalNone {
			return head{}, r
		}
	}
}

// cutLine takes the first line off b. A line feed alone ends a line too (RFC 9112 §2.2); a carriage return anywhere else
// is refused.
func cutLine(b []byte) (line, rest []byte, ok bool) {
	i := bytes.IndexByte(b, '\n')
	if i < 0 {
		return nil, nil, false
	}
	line = b[:i]
	if i > 0 && line[i-1] == '\r' {
		line = line[:i-1]
	}
	return line, b[i+1:], true
}

// scanRequestLine checks "method SP target SP HTTP/x.y" (RFC 9112 §3) with exactly one space at each place. It tells whether
// the version is 1.0; other major versions are left to net/http's 505.
func scanRequestLine(line []byte) (old, ok bool) {
	m := bytes.IndexByte(line, ' ')
	if m <= 0 || m > maxMethod {
		return false, false
	}
	for _, c := range line[:m] {
		if !isToken[c] {
			return false, false
		}
	}
	t := bytes.IndexByte(line[m+1:], ' ')
	if t <= 0 {
		return false, false
	}
	target, version := line[m+1:m+1+t], line[m+1+t+1:]
	for _, c := range target {
		if c <= ' ' || c == 0x7f {
			return false, false
		}
	}
	return string(version) == "HTTP/1.0", isVersion(version)
}

func isVersion(v []byte) bool {
	const form = "HTTP/d.d"
	if len(v) != len(form) || string(v[:5]) != form[:5] || v[6] != '.' {
		return false
	}
	return isDigit(v[5]) && isDigit(v[7])
}

// fieldScan gathers what frames the message while its fields go by.
type fieldScan struct {
	old              bool // HTTP/1.0
	length           int64
	lengths, codings int
	hosts            int
	badHost, chunked bool
}

// line checks one field line (RFC 9112 §5): a token, a colon right behind it, a value without controls, no folding.
func (f *fieldScan) line(line []byte) refusal {
	colon := bytes.IndexByte(line, ':')
	if colon <= 0 {
		return refusalSyntax
	}
	for _, c := range line[:colon] {
		if !isToken[c] {
			return refusalSyntax
		}
	}
	for _, c := range line[colon+1:] {
		if !isValue[c] {
			return refusalSyntax
		}
	}
	return f.field(line[:colon], line[colon+1:])
}

func (f *fieldScan) field(name, value []byte) refusal {
	switch {
	case is(name, "content-length"):
		return f.contentLength(trim(value))
	case is(name, "transfer-encoding"):
		f.codings++
		f.chunked = is(trim(value), "chunked")
	case is(name, "host"):
		f.hosts++
		f.badHost = !validHost(trim(value), f.old)
	}
	return refusalNone
}

func (f *fieldScan) contentLength(v []byte) refusal {
	n, ok := parseLength(v)
	if !ok || f.lengths > 0 {
		return refusalFraming
	}
	f.lengths++
	f.length = n
	return refusalNone
}

// finish applies RFC 9112 §6.3 to requests, with every MAY reject taken.
func (f *fieldScan) finish() (head, refusal) {
	switch {
	case f.codings > 0 && (f.old || f.lengths > 0):
		return head{}, refusalFraming
	case f.codings > 1 || (f.codings == 1 && !f.chunked):
		return head{}, refusalCoding
	case f.badHost || f.hosts > 1 || (f.hosts == 0 && !f.old):
		return head{}, refusalHost
	case f.chunked:
		return head{framing: framingChunked}, refusalNone
	case f.length > 0:
		return head{framing: framingLength, length: f.length}, refusalNone
	}
	return head{framing: framingNone}, refusalNone
}

// parseLength reads 1*DIGIT (RFC 9110 §8.6): no sign, no list, no blanks, no overflow.
func parseLength(v []byte) (int64, bool) {
	if len(v) == 0 {
		return 0, false
	}
	var n int64
	for _, c := range v {
		if !isDigit(c) || n > (math.MaxInt64-9)/10 {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

// is compares a name without regard to ASCII case; lower must be lower-case.
func is(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// trim removes optional white space (RFC 9110 §5.6.3).
func trim(b []byte) []byte {
	for len(b) > 0 && isBlank(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && isBlank(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isToken holds the tchar of RFC 9110 §5.6.2, isValue what a field value may have (§5.5) with its blanks.
var isToken, isValue = byteClasses()

func byteClasses() (token, value [256]bool) {
	for c := range 256 {
		b := byte(c)
		token[c] = isDigit(b) || ('a' <= b|0x20 && b|0x20 <= 'z') || bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), b) >= 0
		value[c] = (b >= ' ' && b != 0x7f) || b == '\t'
	}
	return token, value
}
