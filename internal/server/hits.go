package server

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"net/http"
	"sync"

	"github.com/swrproxy/swrproxy/cache"
)

// HitSource answers requests from memory, at once or not at all. *cache.Cache is one. Safe for concurrent use.
type HitSource interface {
	// Hit fills in the answer and returns true, or returns false having done nothing: the request then takes the ordinary path. It must not
	// wait for anything, as other connections wait for it, and must answer with the same bytes as the ordinary path.
	Hit(*cache.HitRequest, *cache.HitAnswer) bool
	// HitSent is called once for each answer that Hit gave: sent bytes of its body have gone out, whole tells whether that was all.
	HitSent(a *cache.HitAnswer, sent int64, whole bool)
}

// maxHitFields is how many fields a head may have on the hit path. Browsers send about twenty.
const maxHitFields = 64

// smallBody is up to which size a body is copied behind its head: one plain write of a few KiB costs less than gathering two.
const smallBody = 4 << 10

// hitScratch is what one hit needs beside its connection. A loop lends its own to the connection that has its turn; resting connections do not
// hold one.
type hitScratch struct {
	req    cache.HitRequest
	answer cache.HitAnswer
	fields [maxHitFields]cache.HitField
	host   []byte    // the last valid one: the next is mostly the same
	wait   writeWait // for a client that does not take the answer at once; guarded by conn.mu
}

var hitScratches = sync.Pool{New: func() any { return &hitScratch{answer: cache.HitAnswer{Head: make([]byte, 0, 2*smallBody)}} }}

func newHitScratch() *hitScratch { return hitScratches.Get().(*hitScratch) }

// hitSide is what a connection keeps for the hit path.
type hitSide struct {
	source HitSource // nil: this connection has no hit path
	remote string
}

// parse reads the request head at the start of b and returns its length, 0 if it is not whole or not plain beyond doubt: the ordinary path
// then decides what it is.
func (sc *hitScratch) parse(b []byte) int {
	req := &sc.req
	var n int
	switch {
	case len(b) > len("GET /") && string(b[:len("GET /")]) == "GET /":
		req.Method, n = http.MethodGet, len("GET ")
	case len(b) > len("HEAD /") && string(b[:len("HEAD /")]) == "HEAD /":
		req.Method, n = http.MethodHead, len("HEAD ")
	default:
		return 0
	}
	start := n
	for n < len(b) && isPlain[b[n]] {
		n++
	}
	req.Target = b[start:n]
	const version = " HTTP/1.1\r\n"
	if len(b)-n < len(version) || string(b[n:n+len(version)]) != version {
		return 0
	}
	return sc.parseFields(b, n+len(version))
}

// parseFields reads the fields from b[at] on and the empty line behind them, and returns where that ends.
func (sc *hitScratch) parseFields(b []byte, at int) int {
	req := &sc.req
	req.Host = nil
	fields := 0
	for !endsLine(b[at:]) {
		if fields == maxHitFields {
			return 0
		}
		f := &sc.fields[fields]
		n := parseField(b[at:], f)
		if n == 0 {
			return 0
		}
		at += n
		switch kindOf(f.Name, f.Value) {
		case fieldPlain:
			fields++
		case fieldHost:
			if req.Host != nil {
				return 0
			}
			req.Host = f.Value
		case fieldRefused:
			return 0
		}
	}
	req.Fields = sc.fields[:fields]
	if len(req.Host) == 0 || !bytes.Equal(req.Host, sc.host) {
		if !validHost(req.Host, false) {
			return 0
		}
		sc.host = append(sc.host[:0], req.Host...)
	}
	return at + len(crlf)
}

// parseField reads the field line at the start of b and returns its length, 0 if it is unusual.
func parseField(b []byte, f *cache.HitField) int {
	n := 0
	for n < len(b) && isToken[b[n]] {
		n++
	}
	if n == 0 || n == len(b) || b[n] != ':' {
		return 0
	}
	f.Name = b[:n]
	value := b[n+1:]
	end := printableEnd(value)
	if !endsLine(value[end:]) {
		return 0
	}
	f.Value = trim(value[:end])
	return n + 1 + end + len(crlf)
}

// endsLine tells whether a line of b ends at once.
func endsLine(b []byte) bool { return len(b) >= len("\r\n") && b[0] == '\r' && b[1] == '\n' }

// printableEnd returns how many octets at the start of v are visible US-ASCII or blanks. It looks at eight at a time: one below 0x20 borrows from
// its high bit, 0x7f carries into it, and others above have it set. What that does to the octets behind the first such one does not matter.
func printableEnd(v []byte) int {
	const every = 0x0101010101010101
	rest := v
	for len(rest) >= 8 {
		x := binary.LittleEndian.Uint64(rest)
		odd := (x | (x - 0x20*every) | (x + every)) & (0x80 * every)
		if odd != 0 {
			rest = rest[bits.TrailingZeros64(odd)/8:]
			if rest[0] != '\t' {
				return len(v) - len(rest)
			}
			rest = rest[1:]
			continue
		}
		rest = rest[8:]
	}
	for len(rest) > 0 && isPrintable[rest[0]] {
		rest = rest[1:]
	}
	return len(v) - len(rest)
}

// fieldKind is what the hit path does with a field. A closed enum.
type fieldKind uint8

const (
	// fieldRefused sends the request to the ordinary path.
	fieldRefused fieldKind = iota
	// fieldPlain is passed to the source.
	fieldPlain
	// fieldHost is the Host.
	fieldHost
	// fieldDropped has no meaning here: Connection: keep-alive.
	fieldDropped
)

// kindOf sorts a field by name. What concerns the connection, the framing or the protocol is refused.
func kindOf(name, value []byte) fieldKind {
	switch len(name) {
	case len("te"):
		return plainUnless(is(name, "te"))
	case len("host"):
		if is(name, "host") {
			return fieldHost
		}
	case len("range"):
		return plainUnless(is(name, "range"))
	case len("expect"):
		return plainUnless(is(name, "expect"))
	case len("upgrade"):
		return plainUnless(is(name, "upgrade") || is(name, "trailer"))
	case len("connection"):
		if is(name, "connection") {
			if is(value, "keep-alive") {
				return fieldDropped
			}
			return fieldRefused
		}
		return plainUnless(is(name, "keep-alive"))
	case len("content-length"):
		return plainUnless(is(name, "content-length") || is(name, "http2-settings"))
	case len("proxy-connection"):
		return plainUnless(is(name, "proxy-connection"))
	case len("transfer-encoding"):
		return plainUnless(is(name, "transfer-encoding"))
	case len("proxy-authorization"):
		return plainUnless(is(name, "proxy-authorization"))
	}
	return fieldPlain
}

func plainUnless(refused bool) fieldKind {
	if refused {
		return fieldRefused
	}
	return fieldPlain
}

// isPlain holds the octets of a target that stand for themselves in a path or query (RFC 3986 §3.3, §3.4): no escapes, nothing that
// parsers treat in different ways. isPrintable holds those of a field value.
var isPlain, isPrintable = plainBytes()

func plainBytes() (plain, printable [256]bool) {
	for c := range 256 {
		b := byte(c)
		plain[c] = isDigit(b) || ('a' <= b|0x20 && b|0x20 <= 'z') || bytes.IndexByte([]byte("-._~!$&'()*+,;=:@/?"), b) >= 0
		printable[c] = (b >= ' ' && b < 0x7f) || b == '\t'
	}
	return plain, printable
}
