package policy

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// KeySpec says what beside scheme, authority and path distinguishes stored responses.
type KeySpec struct {
	// Space is a name that no other rule's keys share, unless they are meant to. It contains no NUL.
	Space string
	// Query says which query parameters count.
	Query QuerySpec
	// Headers are request fields whose value is part of the key, normalised as for Vary.
	Headers []string
	// Cookies are names of cookies whose value is part of the key.
	Cookies []string
}

// Key builds cache keys (RFC 9111 §2). Immutable after NewKey; safe for concurrent use.
type Key struct {
	space   string
	query   query
	headers []string
	cookies []string
}

// NewKey compiles a spec; the error wraps ErrBadPattern.
func NewKey(spec KeySpec) (*Key, error) {
	if strings.IndexByte(spec.Space, 0) >= 0 {
		return nil, fmt.Errorf("%w: key space %q contains NUL", ErrBadPattern, spec.Space)
	}
	k := &Key{space: spec.Space, cookies: sortedSet(spec.Cookies)}
	for _, name := range append(slices.Clone(spec.Headers), k.cookies...) {
		if !isToken(name) {
			return nil, fmt.Errorf("%w: key part %q is no token", ErrBadPattern, name)
		}
	}
	for _, name := range spec.Headers {
		k.headers = append(k.headers, http.CanonicalHeaderKey(name))
	}
	k.headers = sortedSet(k.headers)
	var err error
	k.query, err = newQuery(spec.Query)
	return k, err
}

func sortedSet(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names)
}

// Simple reports that the key depends on nothing but the target, so that Append may be given a nil header.
func (k *Key) Simple() bool { return len(k.headers)+len(k.cookies) == 0 }

// Append appends the full key of a target:
//
//	space NUL scheme "://" authority path [ "?" query ] { NUL header } { NUL cookie }
//
// No two different inputs give the same key: NUL cannot be part of any of the parts, a scheme has no colon, an
// authority no slash, a path no question mark. The method is not in it: GET and HEAD share a key, and other methods
// have none. It does not allocate for a simple key beyond growing dst.
func (k *Key) Append(dst []byte, t *Target, h http.Header) []byte {
	dst = append(dst, k.space...)
	dst = append(dst, 0)
	dst = append(dst, t.Scheme...)
	dst = append(dst, "://"...)
	dst = append(dst, t.Authority...)
	dst = append(dst, t.Path...)
	dst = k.query.append(dst, t.RawQuery)
	for _, name := range k.headers {
		dst = append(dst, 0)
		dst = appendField(dst, name, h[name])
	}
	for _, name := range k.cookies {
		dst = append(dst, 0)
		dst = appendCookie(dst, name, h["Cookie"])
	}
	return dst
}

// appendCookie appends name, and "=value" for each cookie of that name in the order they were sent (RFC 6265 §4.2.1).
func appendCookie(dst []byte, name string, lines []string) []byte {
	dst = append(dst, name...)
	for _, line := range lines {
		for line != "" {
			var pair string
			pair, line, _ = strings.Cut(line, ";")
			if n, v, ok := strings.Cut(trimOWS(pair), "="); ok && n == name {
				dst = append(dst, '=')
				dst = appendEscaped(dst, v, ';')
				dst = append(dst, ';')
			}
		}
	}
	return dst
}
