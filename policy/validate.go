package policy

import (
	"net/http"
	"strconv"
	"strings"
)

// Conditional returns the fields that make a fill conditional on a stored response: If-None-Match, and
// If-Modified-Since beside it for origins that know only dates (RFC 9111 §4.3.1). nil when the stored response has no
// validator.
func Conditional(stored http.Header) http.Header {
	c := http.Header{}
	if etag := get(stored, "Etag"); etag != "" {
		c["If-None-Match"] = []string{etag}
	}
	if modified := get(stored, "Last-Modified"); modified != "" {
		c["If-Modified-Since"] = []string{modified}
	}
	if len(c) == 0 {
		return nil
	}
	return c
}

// StripConditions removes a client's own conditions and range from a request that is to fill the cache: a fill asks
// for the whole response, or under the cache's own conditions (RFC 9111 §4.3.1). It changes h.
func StripConditions(h http.Header) {
	for _, name := range [...]string{"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range", "Range"} {
		delete(h, name)
	}
}

// IsCondition tells whether StripConditions removes the field with this canonical name.
func IsCondition(name string) bool {
	switch name {
	case "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range", "Range":
		return true
	}
	return false
}

// hopByHop are fields that concern one connection and are never part of a stored response (RFC 9110 §7.6.1, RFC 9111
// §3.1).
var hopByHop = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Connection": true, "Te": true, "Trailer": true,
	"Transfer-Encoding": true, "Upgrade": true,
	"Proxy-Authenticate": true, "Proxy-Authentication-Info": true, "Proxy-Authorization": true,
}

// keptOnUpdate are fields of a stored response that a 304 does not update: the stored bytes are what they say (RFC
// 9111 §3.2). Content-Type is updated: nothing here interprets the bytes. Etag and Cache-Status are here for the same
// reason as Content-Encoding: they name the bytes, and a 304 that names other ones is not about these.
var keptOnUpdate = map[string]bool{
	"Content-Length": true, "Content-Encoding": true, "Content-Range": true, "Content-Md5": true, "Content-Digest": true,
	"Repr-Digest": true, "Digest": true, "Etag": true,
}

// Freshen returns the header of a stored response after a 304, or a 200 to HEAD, has updated it (RFC 9111 §3.2,
// §4.3.4): each field of the update replaces the stored one, except those that describe the connection or the stored
// bytes. Age and Date always come from the update, also when it has none: the stored ones would date the validation
// wrongly. Neither argument is changed.
func Freshen(stored, from304 http.Header) http.Header {
	h := make(http.Header, len(stored)+len(from304))
	for name, lines := range stored {
		if name != "Age" && name != "Date" {
			h[name] = lines
		}
	}
	listed := connectionFields(from304)
	for name, lines := range from304 {
		if hopByHop[name] || keptOnUpdate[name] || listed[name] {
			continue
		}
		h[name] = lines
	}
	if len(stored["Etag"]) == 0 && len(from304["Etag"]) == 1 && len(stored["Last-Modified"]) > 0 {
		// A validator that the stored response lacked may be added: the 304 vouches for the bytes.
		h["Etag"] = from304["Etag"]
	}
	return h
}

// connectionFields are the names that Connection lists (RFC 9110 §7.6.1).
func connectionFields(h http.Header) map[string]bool {
	if len(h["Connection"]) == 0 {
		return nil
	}
	listed := map[string]bool{}
	members(h["Connection"], func(m string) bool {
		listed[http.CanonicalHeaderKey(m)] = true
		return true
	})
	return listed
}

// Selects reports whether a 304 that answers a validation of stored may update it (RFC 9111 §4.3.4). One with a
// strong ETag updates only a response with the same; one with a weak ETag or a date, one that has the same.
//
// Deviation: a 304 without any validator is taken too. RFC 9111 §4.3.4 allows that only for stored responses without
// validator, but the condition that it answers named exactly this response, and many origins leave the validator out.
func Selects(stored, from304 http.Header) bool {
	if etag := get(from304, "Etag"); etag != "" {
		mine, ok := parseETag(get(stored, "Etag"))
		theirs, valid := parseETag(etag)
		if !ok && get(stored, "Etag") == "" && valid {
			// Validated by date; the ETag is news.
			return sameDate(stored, from304)
		}
		return ok && valid && mine.tag == theirs.tag
	}
	return sameDate(stored, from304)
}

// sameDate reports that no Last-Modified of the update contradicts the stored one.
func sameDate(stored, update http.Header) bool {
	theirs := get(update, "Last-Modified")
	return theirs == "" || theirs == get(stored, "Last-Modified")
}

// Selects is the function Selects under the rule's settings: with TrustNotModified every 304 updates the response
// whose validator was sent.
func (s *Settings) Selects(stored, from304 http.Header) bool {
	return s.TrustNotModified || Selects(stored, from304)
}

// HeadFreshens judges a 200 answer to HEAD against a stored answer to GET (RFC 9111 §4.3.5). ok: validators and
// length agree, so that Freshen may update it. invalidates: one of them differs, so that the stored response is to be
// taken as stale. storedSize is the length of the stored content, negative if unknown.
func HeadFreshens(stored, head http.Header, storedSize int64) (ok, invalidates bool) {
	for _, name := range [...]string{"Etag", "Last-Modified"} {
		if theirs := get(head, name); theirs != "" && theirs != get(stored, name) {
			return false, true
		}
	}
	if length := trimOWS(get(head, "Content-Length")); length != "" && storedSize >= 0 {
		if n, err := strconv.ParseInt(length, 10, 64); err != nil || n != storedSize {
			return false, true
		}
	}
	return true, false
}

// etag is a parsed entity tag (RFC 9110 §8.8.3).
type etag struct {
	tag  string
	weak bool
}

// parseETag reads one entity tag: a quoted string of etagc, with W/ before it if weak. The W is case-sensitive.
func parseETag(s string) (etag, bool) {
	s = trimOWS(s)
	tag, weak := strings.CutPrefix(s, "W/")
	if len(tag) < 2 || tag[0] != '"' || strings.IndexByte(tag[1:], '"') != len(tag)-2 {
		return etag{}, false
	}
	for i := 1; i < len(tag)-1; i++ {
		if tag[i] <= ' ' || tag[i] == 0x7f {
			return etag{}, false
		}
	}
	return etag{tag, weak}, true
}

// strongETag returns a header's ETag if it is a strong one.
func strongETag(h http.Header) (string, bool) {
	e, ok := parseETag(get(h, "Etag"))
	if !ok || e.weak {
		return "", false
	}
	return e.tag, true
}

// matchETags reports whether one of the entity tags in a list field equals the stored one, or the field is "*" (RFC
// 9110 §13.1.1, §13.1.2). Entity tags may contain commas, so that the list is read tag by tag. Something that is no
// entity tag ends the reading of its line: what follows cannot be told apart from it. A stored ETag that is no entity
// tag can be matched by its exact text, since origins that send such a tag compare it so.
func matchETags(lines []string, stored string, strong bool) bool {
	mine, ok := parseETag(stored)
	for _, line := range lines {
		line = trimOWS(line)
		if line == "*" {
			return true
		}
		if !ok {
			if stored != "" && line == trimOWS(stored) && !strong {
				return true
			}
			continue
		}
		for line != "" {
			var theirs etag
			var valid bool
			if theirs, line, valid = cutETag(line); valid && theirs.tag == mine.tag && !(strong && (theirs.weak || mine.weak)) {
				return true
			}
		}
	}
	return false
}

// cutETag reads the entity tag at the start of a list and the comma after it.
func cutETag(list string) (e etag, rest string, ok bool) {
	list = strings.TrimLeft(list, " \t,")
	start := 0
	if strings.HasPrefix(list, "W/") {
		start = 2
	}
	if len(list) <= start || list[start] != '"' {
		return etag{}, "", false
	}
	end := strings.IndexByte(list[start+1:], '"')
	if end < 0 {
		return etag{}, "", false
	}
	end += start + 2
	rest = trimOWS(list[end:])
	if rest != "" && rest[0] != ',' {
		return etag{}, "", false
	}
	e, ok = parseETag(list[:end])
	return e, rest, ok
}
