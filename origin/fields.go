package origin

import (
	"net/http"
	"slices"
	"strings"
)

// fields are the header fields of one request to an origin. A list is quicker to make than a map, and is nearly what is sent.
// Not safe for concurrent use.
type fields []field

// field is one name, as it stands in the client's header, with its lines, which are shared and never changed.
type field struct {
	name  string
	lines []string
}

// usualFields is room for the fields of most requests.
const usualFields = 24

func (f fields) find(name string) int {
	for i := range f {
		if f[i].name == name {
			return i
		}
	}
	return -1
}

// get returns the lines of a field, nil if there is none.
func (f fields) get(name string) []string {
	if i := f.find(name); i >= 0 {
		return f[i].lines
	}
	return nil
}

// with puts lines in the place of what there is. It changes f, as append does.
func (f fields) with(name string, lines []string) fields {
	if i := f.find(name); i >= 0 {
		f[i].lines = lines
		return f
	}
	return append(f, field{name, lines})
}

// sort sorts by name: the usual short list by insertion, which is quickest for it.
func (f fields) sort() {
	if len(f) > usualFields {
		slices.SortFunc(f, func(a, b field) int { return strings.Compare(a.name, b.name) })
		return
	}
	for i := 1; i < len(f); i++ {
		for j := i; j > 0 && f[j].name < f[j-1].name; j-- {
			f[j], f[j-1] = f[j-1], f[j]
		}
	}
}

// header returns the fields as a new map.
func (f fields) header() http.Header {
	h := make(http.Header, len(f))
	for i := range f {
		h[f[i].name] = f[i].lines
	}
	return h
}
