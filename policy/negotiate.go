package policy

import (
	"net/http"
	"strings"
)

// weighted is one member of a field that ranks values: "gzip;q=0.5". value keeps the case it was sent in.
type weighted struct {
	value  string
	weight int // thousandths
}

// ranking says how a ranking field is normalised.
type ranking uint8

const (
	// codings: Accept-Encoding is a set; order means nothing (RFC 9110 §12.5.3).
	codings ranking = iota
	// languages: Accept-Language ranks by weight; the order among equals cannot be relied upon (RFC 9110 §12.5.4).
	languages
)

// maxWeighted is how many members are normalised; a longer field is compared as a plain list. It bounds time and
// memory: the sort is quadratic and works on the stack.
const maxWeighted = 16

// appendWeighted appends a ranking field in its normal form: lower case, weights in their shortest form and left out
// when 1. A field with a member that cannot be read is compared as a plain list.
func appendWeighted(dst []byte, lines []string, r ranking) []byte {
	var space [maxWeighted]weighted
	list, ok := readWeighted(space[:0], lines)
	if !ok {
		return appendList(dst, lines)
	}
	for i := 1; i < len(list); i++ {
		for j := i; j > 0 && r.before(&list[j], &list[j-1]); j-- {
			list[j], list[j-1] = list[j-1], list[j]
		}
	}
	for i := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendLower(dst, r.name(list[i].value))
		dst = appendWeight(dst, list[i].weight)
	}
	return dst
}

// readWeighted parses all members; ok is false if there are too many, or one is no token or has
// parameters other than a weight.
func readWeighted(list []weighted, lines []string) (_ []weighted, ok bool) {
	for _, line := range lines {
		for line != "" {
			var m string
			if m, line = nextMember(line); m == "" {
				continue
			}
			w, ok := readWeight(m)
			if !ok || len(list) == maxWeighted {
				return list, false
			}
			list = append(list, w)
		}
	}
	return list, true
}

// readWeight parses `value *( OWS ";" OWS "q=" qvalue )` (RFC 9110 §12.4.2).
func readWeight(m string) (weighted, bool) {
	value, q, has := strings.Cut(m, ";")
	w := weighted{trimOWS(value), 1000}
	if !isToken(w.value) {
		return w, false
	}
	if !has {
		return w, true
	}
	q = trimOWS(q)
	if len(q) < 3 || q[0]|0x20 != 'q' || q[1] != '=' {
		return w, false
	}
	var ok bool
	w.weight, ok = readQuality(q[2:])
	return w, ok
}

// readQuality parses a qvalue into thousandths: 0 to 1 with at most three decimals.
func readQuality(s string) (int, bool) {
	if len(s) > 5 || s[0] != '0' && s[0] != '1' || len(s) > 1 && s[1] != '.' {
		return 0, false
	}
	n, unit := int(s[0]-'0')*1000, 100
	for i := 2; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n += int(s[i]-'0') * unit
		unit /= 10
	}
	return n, n <= 1000
}

// before is a total order up to equal members, so that the normal form does not depend on how the client ordered
// them.
func (r ranking) before(a, b *weighted) bool {
	if r == languages && a.weight != b.weight {
		return a.weight > b.weight
	}
	if c := compareFold(r.name(a.value), r.name(b.value)); c != 0 {
		return c < 0
	}
	return a.weight > b.weight
}

// name folds the aliases of RFC 9110 §8.4.1.
func (r ranking) name(value string) string {
	if r == codings && len(value) > 2 && (strings.EqualFold(value, "x-gzip") || strings.EqualFold(value, "x-compress")) {
		return value[2:]
	}
	return value
}

func compareFold(a, b string) int {
	for i := range min(len(a), len(b)) {
		if x, y := lower(a[i]), lower(b[i]); x != y {
			return int(x) - int(y)
		}
	}
	return len(a) - len(b)
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

func appendLower(dst []byte, s string) []byte {
	for i := range len(s) {
		dst = append(dst, lower(s[i]))
	}
	return dst
}

// appendWeight appends the shortest form of a weight, nothing for 1.
func appendWeight(dst []byte, n int) []byte {
	if n == 1000 {
		return dst
	}
	dst = append(dst, ";q=0"...)
	if n > 0 {
		dst = append(dst, '.')
	}
	for unit := 100; n > 0; unit /= 10 {
		dst = append(dst, '0'+byte(n/unit))
		n %= unit
	}
	return dst
}

// PreferredLanguage returns the language that a request's Accept-Language likes best, in lower case. ok is false
// without one: no field, a wildcard, a weight of 0, an unreadable field, or several languages that it likes equally.
func PreferredLanguage(h http.Header) (string, bool) {
	list, ok := readWeighted(nil, h["Accept-Language"])
	if !ok {
		return "", false
	}
	var best weighted
	unique := false
	for _, w := range list {
		switch {
		case w.weight > best.weight:
			best, unique = w, true
		case w.weight == best.weight && !strings.EqualFold(w.value, best.value):
			unique = false
		}
	}
	if !unique || best.value == "*" {
		return "", false
	}
	return strings.ToLower(best.value), true
}

// AppendLanguage appends a second secondary key under which a response that varies on Accept-Language may be found by
// the language it is in (Settings.SelectLanguage). For a stored response pass its Content-Language, for a request
// what PreferredLanguage returns. ok is false, and dst unchanged, when fields do not contain Accept-Language or
// language is not a single language.
func AppendLanguage(dst []byte, fields []string, h http.Header, language string) (_ []byte, ok bool) {
	language = trimOWS(language)
	if !isToken(language) || language == "*" {
		return dst, false
	}
	n := len(dst)
	for _, name := range fields {
		if name == "Accept-Language" {
			ok = true
			// "=" where a value has ":" keeps these keys apart from those of AppendVariant.
			dst = append(dst, "Accept-Language="...)
			dst = appendLower(dst, language)
		} else {
			dst = appendField(dst, name, h[name])
		}
		dst = append(dst, 0)
	}
	if !ok {
		return dst[:n], false
	}
	return dst, true
}
