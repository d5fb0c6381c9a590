package policy

import (
	"net/http"
	"slices"
)

// VaryOf returns the field names that a response varies on, over all lines, canonical, sorted and without repetition
// (RFC 9111 §4.1). star reports a response that matches no other request: a member "*", or one that is no field name
// and so names something unknown.
func VaryOf(h http.Header) (fields []string, star bool) {
	members(h["Vary"], func(m string) bool {
		if m == "*" || !isToken(m) {
			star = true
		}
		fields = append(fields, http.CanonicalHeaderKey(m))
		return !star
	})
	if star {
		return nil, true
	}
	slices.Sort(fields)
	return slices.Compact(fields), false
}

// AppendVariant appends the secondary key of a request for a response that varies on fields, as VaryOf returns them
// (RFC 9111 §4.1). Two requests have the same one if each field is absent from both, or has the same value in both
// after normalisation:
//
//   - all lines of a field are combined (RFC 9110 §5.3)
//   - white space around list commas does not count, outside quoted strings
//   - Accept-Encoding is compared as a set of codings with their weights, Accept-Language as a list by weight; case and the spelling
//     of weights do not count
//
// Cookie, Authorization and User-Agent are no lists, and are compared as they are. An absent field differs from an
// empty one. It does not allocate beyond growing dst.
func AppendVariant(dst []byte, fields []string, h http.Header) []byte {
	for _, name := range fields {
		dst = appendField(dst, name, h[name])
		dst = append(dst, 0)
	}
	return dst
}

// appendField appends name, and ":" and the normal value if there is one.
func appendField(dst []byte, name string, lines []string) []byte {
	dst = append(dst, name...)
	if len(lines) == 0 {
		return dst
	}
	dst = append(dst, ':')
	switch name {
	case "Accept-Encoding":
		return appendWeighted(dst, lines, codings)
	case "Accept-Language":
		return appendWeighted(dst, lines, languages)
	case "Cookie", "Authorization", "User-Agent":
		for i, line := range lines {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = appendEscaped(dst, line, 0)
		}
		return dst
	}
	return appendList(dst, lines)
}

// appendList appends the members of all lines, separated by bare commas. Empty members stay: an unknown field may
// mean something by them.
func appendList(dst []byte, lines []string) []byte {
	for i, line := range lines {
		if i > 0 {
			dst = append(dst, ',')
		}
		for more := true; more; {
			var member string
			member, line, more = cutMember(line)
			dst = appendEscaped(dst, member, 0)
			if more {
				dst = append(dst, ',')
			}
		}
	}
	return dst
}

// appendEscaped appends s so that it contains neither NUL nor sep, and no two strings become the same.
func appendEscaped(dst []byte, s string, sep byte) []byte {
	for i := range len(s) {
		switch c := s[i]; c {
		case 0, 1, sep:
			dst = append(dst, 1, c+2)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}
