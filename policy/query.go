package policy

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// QuerySpec says which query parameters are part of the key. The zero value keeps the query byte for byte, because
// order, repetition and spelling can matter to an origin.
type QuerySpec struct {
	// IgnoreAll leaves the whole query out.
	IgnoreAll bool
	// Ignore are patterns on decoded names of parameters that are left out: "utm_*".
	Ignore []string
	// Only are patterns on the names that are kept, if there are any.
	Only []string
	// Sort orders parameters by their decoded names; parameters of the same name keep their order.
	Sort bool
}

// query is a compiled QuerySpec.
type query struct {
	all          bool
	ignore, only []string
	sort         bool
}

func newQuery(spec QuerySpec) (query, error) {
	for _, p := range append(slices.Clone(spec.Ignore), spec.Only...) {
		if p == "" || strings.ContainsAny(p, "&=\x00") {
			return query{}, fmt.Errorf("%w: query parameter %q", ErrBadPattern, p)
		}
	}
	return query{all: spec.IgnoreAll, ignore: spec.Ignore, only: spec.Only, sort: spec.Sort}, nil
}

// param is one parameter of a query: its text as sent and the length of its name.
type param struct {
	text string
	name int
}

// maxSorted is how many parameters are sorted without allocation.
const maxSorted = 64

// append appends "?" and what of the query counts; nothing when nothing does.
func (q *query) append(dst []byte, raw string) []byte {
	switch {
	case raw == "" || q.all:
		return dst
	case len(q.ignore) == 0 && len(q.only) == 0 && !q.sort:
		dst = append(dst, '?')
		return appendEscaped(dst, raw, 0)
	}
	var space [maxSorted]param
	params := q.filter(space[:0], raw)
	if q.sort {
		sortParams(params)
	}
	sep := byte('?')
	for _, p := range params {
		dst = append(dst, sep)
		dst = appendEscaped(dst, p.text, 0)
		sep = '&'
	}
	return dst
}

// filter splits a query at "&", the only separator, and keeps the parameters that count.
func (q *query) filter(params []param, raw string) []param {
	for raw != "" {
		var text string
		text, raw, _ = strings.Cut(raw, "&")
		name, _, _ := strings.Cut(text, "=")
		if text != "" && q.counts(text, name) {
			params = append(params, param{text, len(name)})
		}
	}
	return params
}

// counts reports whether a parameter is part of the key. One that contains a semicolon always is: an origin that
// takes it for a separator would read parameters that the key does not show.
func (q *query) counts(text, name string) bool {
	if strings.IndexByte(text, ';') >= 0 {
		return true
	}
	name = decodeName(name)
	if len(q.only) > 0 && !anyGlob(q.only, name) {
		return false
	}
	return len(q.ignore) == 0 || !anyGlob(q.ignore, name)
}

// decodeName is the name that an origin sees; what cannot be decoded stands for itself.
func decodeName(name string) string {
	if strings.IndexByte(name, '%') < 0 && strings.IndexByte(name, '+') < 0 {
		return name
	}
	if decoded, err := url.QueryUnescape(name); err == nil {
		return decoded
	}
	return name
}

// sortParams sorts stably by decoded name. Insertion sort: queries are short, and it does not allocate.
func sortParams(params []param) {
	if len(params) > maxSorted {
		slices.SortStableFunc(params, compareParams)
		return
	}
	for i := 1; i < len(params); i++ {
		for j := i; j > 0 && compareParams(params[j], params[j-1]) < 0; j-- {
			params[j], params[j-1] = params[j-1], params[j]
		}
	}
}

func compareParams(a, b param) int {
	return strings.Compare(decodeName(a.text[:a.name]), decodeName(b.text[:b.name]))
}
