package policy

import (
	"net/http"
	"strings"
	"time"
)

// responseControl is what a response's Cache-Control, or the targeted field that replaces it, says (RFC 9111 §5.2.2).
type responseControl struct {
	noStore, noCache, private, public                   bool
	mustRevalidate, proxyRevalidate, mustUnderstand     bool
	immutable, noTransform                              bool
	maxAge, sMaxAge, staleWhileRevalidate, staleIfError Span
	// fields are the names that qualified no-cache and private forms list, canonical (RFC 9111 §5.2.2.4, §5.2.2.7).
	fields []string
	// invalid is set when something stood where a directive should be, so that freshness is in doubt (RFC 9111
	// §4.2.1).
	invalid bool
	// targeted is set when a targeted field was used: Cache-Control and Expires do not count then (RFC 9213 §2.2).
	targeted bool
}

// readCacheControl parses all lines of a response's Cache-Control (RFC 9111 §5.2.2).
func readCacheControl(lines []string) (c responseControl) {
	members(lines, func(m string) bool {
		name, value, has, ok := cutDirective(m)
		if !ok {
			c.malformed(m)
			return true
		}
		c.directive(name, value, has)
		return true
	})
	return c
}

// malformed takes a member that is no directive: semicolons or spaces for commas, a quoted string without end.
// Freshness in it means "stale", and what it says against storing counts (RFC 9111 §4.2.1).
func (c *responseControl) malformed(m string) {
	c.invalid = true
	words := strings.FieldsFunc(m, func(r rune) bool { return r > 0x7f || !tokenChar[byte(r)] })
	for _, word := range words {
		switch strings.ToLower(word) {
		case "max-age":
			narrow(&c.maxAge, 0)
		case "s-maxage":
			narrow(&c.sMaxAge, 0)
		case "no-store", "no-cache", "private", "must-revalidate", "proxy-revalidate", "stale-while-revalidate", "stale-if-error":
			c.directive(word, "", false)
		}
	}
}

// directive takes one well-formed directive; names are case-insensitive (RFC 9111 §5.2).
func (c *responseControl) directive(name, value string, has bool) {
	switch strings.ToLower(name) {
	case "no-store":
		c.noStore = true
	case "no-cache":
		c.qualify(&c.noCache, value, has)
	case "private":
		c.qualify(&c.private, value, has)
	case "public":
		c.public = true
	case "must-revalidate":
		c.mustRevalidate = true
	case "proxy-revalidate":
		c.proxyRevalidate = true
	case "must-understand":
		c.mustUnderstand = true
	case "immutable":
		c.immutable = true
	case "no-transform":
		c.noTransform = true
	case "max-age":
		narrow(&c.maxAge, deltaOrZero(value))
	case "s-maxage":
		narrow(&c.sMaxAge, deltaOrZero(value))
	case "stale-while-revalidate":
		narrow(&c.staleWhileRevalidate, deltaOrZero(value))
	case "stale-if-error":
		narrow(&c.staleIfError, deltaOrZero(value))
	}
}

// qualify takes no-cache and private: with a list of field names they concern these fields only; without one, or with
// a list that names nothing, the whole response.
func (c *responseControl) qualify(whole *bool, value string, has bool) {
	if !has {
		*whole = true
		return
	}
	n := len(c.fields)
	for value != "" {
		var name string
		if name, value = nextMember(value); isToken(name) {
			c.fields = append(c.fields, http.CanonicalHeaderKey(name))
		} else if name != "" {
			*whole = true
		}
	}
	if len(c.fields) == n {
		*whole = true
	}
}

// deltaOrZero reads a freshness argument. What cannot be read is 0, because a response with invalid freshness
// information is to be considered stale (RFC 9111 §4.2.1).
func deltaOrZero(value string) time.Duration {
	d, _ := parseDelta(value)
	return d
}

// narrow keeps the smallest of repeated values. RFC 9111 §4.2.1 leaves the choice between the first and "stale"; the
// smallest is never longer than either the first or any other reading.
func narrow(s *Span, d time.Duration) {
	if !s.Set || d < s.D {
		*s = Span{D: d, Set: true}
	}
}
