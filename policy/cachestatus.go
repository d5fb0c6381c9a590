package policy

import (
	"net/http"
	"strconv"
	"time"
)

// Fwd says why a request went on to the origin (RFC 9211 §2.2). FwdNone: it did not.
type Fwd uint8

const (
	// FwdNone leaves fwd out.
	FwdNone Fwd = iota
	// FwdBypass: the cache was configured not to handle the request.
	FwdBypass
	// FwdMethod: the method's semantics require it.
	FwdMethod
	// FwdURIMiss: nothing is stored for the URI.
	FwdURIMiss
	// FwdVaryMiss: responses are stored for the URI, but none matches the request's fields.
	FwdVaryMiss
	// FwdMiss: nothing usable is stored; which of the two above is not known.
	FwdMiss
	// FwdRequest: a fresh response is stored, but the request asks for something else.
	FwdRequest
	// FwdStale: the stored response is stale.
	FwdStale
	// FwdPartial: the stored response does not have all the bytes.
	FwdPartial
)

var fwdNames = [...]string{"", "bypass", "method", "uri-miss", "vary-miss", "miss", "request", "stale", "partial"}

// String returns the token of RFC 9211 §2.2, "" for FwdNone.
func (f Fwd) String() string { return nameOf(fwdNames[:], int(f)) }

// CacheStatusName is the name of this cache in Cache-Status (RFC 9211 §2).
const CacheStatusName = "swrproxy"

// CacheStatus is this cache's member of the Cache-Status field (RFC 9211 §2).
type CacheStatus struct {
	// Hit: the answer came from storage and nothing was forwarded to make it (§2.1).
	Hit bool
	// Fwd says why the request was forwarded (§2.2).
	Fwd Fwd
	// FwdStatus is the status that the origin sent; 0 leaves it out (§2.3).
	FwdStatus int
	// TTL is the remaining freshness in whole seconds, negative when stale (§2.4); it counts if HasTTL is set.
	TTL int
	// HasTTL says that TTL is known.
	HasTTL bool
	// Stored: the response was stored (§2.5).
	Stored bool
	// Collapsed: the request shared another one's forward request (§2.6).
	Collapsed bool
	// Key is a representation of the cache key; "" leaves it out (§2.7).
	Key string
	// Detail is a word for people; "" leaves it out (§2.8).
	Detail string
}

// Seconds turns a remaining lifetime into the ttl parameter: whole seconds, rounded down, so that a stale response is
// never shown with 0.
func Seconds(ttl time.Duration) int {
	n := int(ttl / time.Second)
	if ttl%time.Second < 0 {
		n--
	}
	return n
}

// Append appends the member: `swrproxy; hit; ttl=30`. It does not allocate beyond growing dst.
func (c *CacheStatus) Append(dst []byte) []byte {
	dst = append(dst, CacheStatusName...)
	if c.Hit {
		dst = append(dst, "; hit"...)
	}
	if c.Fwd != FwdNone && !c.Hit {
		dst = append(append(dst, "; fwd="...), c.Fwd.String()...)
		if c.FwdStatus > 0 {
			dst = strconv.AppendInt(append(dst, "; fwd-status="...), int64(c.FwdStatus), 10)
		}
	}
	if c.HasTTL {
		dst = strconv.AppendInt(append(dst, "; ttl="...), int64(c.TTL), 10)
	}
	if c.Stored {
		dst = append(dst, "; stored"...)
	}
	if c.Collapsed {
		dst = append(dst, "; collapsed"...)
	}
	dst = appendStringParam(dst, "; key=", c.Key)
	if isSFToken(c.Detail) {
		return append(append(dst, "; detail="...), c.Detail...)
	}
	return appendStringParam(dst, "; detail=", c.Detail)
}

// AppendHit appends the member of an answer from storage whose remaining freshness is ttl; a detail of 0 is left out. It says the same as
// [CacheStatus.Append], with less to look at.
func AppendHit(dst []byte, ttl time.Duration, detail Reason) []byte {
	dst = strconv.AppendInt(append(dst, CacheStatusName+"; hit; ttl="...), int64(Seconds(ttl)), 10)
	if detail != 0 {
		dst = append(append(dst, "; detail="...), detail.String()...)
	}
	return dst
}

// appendStringParam appends a String of Structured Fields (RFC 9651 §4.1.6); octets that a String cannot hold become
// "?".
func appendStringParam(dst []byte, name, s string) []byte {
	if s == "" {
		return dst
	}
	dst = append(append(dst, name...), '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ' || c > '~':
			dst = append(dst, '?')
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// isSFToken reports a Token of Structured Fields (RFC 9651 §3.3.4).
func isSFToken(s string) bool {
	if s == "" || s[0] != '*' && (s[0]|0x20 < 'a' || s[0]|0x20 > 'z') {
		return false
	}
	for i := 1; i < len(s); i++ {
		if !tokenChar[s[i]] && s[i] != ':' && s[i] != '/' {
			return false
		}
	}
	return true
}

// AddCacheStatus adds the member to a header, after those of caches nearer to the origin (RFC 9211 §2). It changes h.
func AddCacheStatus(h http.Header, c *CacheStatus) {
	var room [128]byte // for all but a long key
	before := h["Cache-Status"]
	h["Cache-Status"] = append(before[:len(before):len(before)], string(c.Append(room[:0])))
}
