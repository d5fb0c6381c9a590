package cache

import (
	"iter"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
)

// Lines is a list of header or trailer fields kept in one string, each as "Name: value\r\n" with a canonical
// name, sorted by name; lines of the same name keep their order. It costs one pointer where an
// [http.Header] costs dozens, which is what keeps a large memory tier cheap to collect, and its
// block can be written to a connection as it is.
//
// The zero value is an empty list. Immutable after NewLines.
type Lines struct {
	block string
}

// Fields are the header fields of a record: Lines, with what the hit path has to know of them. Fields are made whole and never changed in part,
// so that what is known of the lines is always true of them.
//
// The zero value is an empty list, which the hit path leaves to the ordinary one. Immutable after NewFields.
type Fields struct {
	Lines
	marks marks
}

// NewFields copies h. Names are canonicalised; values with CR, LF or NUL, which no HTTP parser lets
// through, are dropped with their line.
func NewFields(h http.Header) Fields {
	return fieldsWithout(h, func(string) bool { return false })
}

// FieldsOf adopts a block that [Lines.Block] gave, such as one read back from disk.
func FieldsOf(block string) Fields { return Fields{Lines: Lines{block}, marks: markBlock(block)} }

// fieldsWithout is NewFields without the fields that are dropped, by their names as they stand in h.
func fieldsWithout(h http.Header, dropped func(name string) bool) Fields {
	return FieldsOf(linesWithout(h, dropped).block)
}

// NewLines copies h as NewFields does.
func NewLines(h http.Header) Lines {
	return linesWithout(h, func(string) bool { return false })
}

// LinesOf adopts a block that [Lines.Block] gave.
func LinesOf(block string) Lines { return Lines{block} }

func linesWithout(h http.Header, dropped func(name string) bool) Lines {
	names := make([]string, 0, len(h))
	size := 0
	for name, values := range h {
		if dropped(name) {
			continue
		}
		names = append(names, name)
		size += linesSize(name, values)
	}
	slices.Sort(names)
	var b strings.Builder
	b.Grow(size)
	for _, name := range names {
		for _, v := range h[name] {
			writeField(&b, textproto.CanonicalMIMEHeaderKey(name), v)
		}
	}
	return LinesOf(b.String())
}

// linesSize is how long the lines of one field are.
func linesSize(name string, values []string) (n int) {
	for _, v := range values {
		n += len(name) + len(v) + len(": \r\n")
	}
	return n
}

func writeField(b *strings.Builder, name, value string) {
	if strings.ContainsAny(value, "\r\n\x00") {
		return
	}
	b.WriteString(name)
	b.WriteString(": ")
	b.WriteString(value)
	b.WriteString("\r\n")
}

// Block returns the fields as they stand on the wire, without the empty line that ends a head.
func (f Lines) Block() string { return f.block }

// All yields each line's name and value in order. Both are parts of the block: nothing is copied.
func (f Lines) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		rest := f.block
		for rest != "" {
			line, tail, _ := strings.Cut(rest, "\r\n")
			rest = tail
			name, value, ok := strings.Cut(line, ": ")
			if ok && !yield(name, value) {
				return
			}
		}
	}
}

// Get returns the first value of the field with this canonical name, or "".
func (f Lines) Get(name string) string {
	for n, v := range f.All() {
		if n == name {
			return v
		}
	}
	return ""
}

// Header returns the fields as a new map that the caller owns.
func (f Lines) Header() http.Header {
	h := make(http.Header)
	f.AddTo(h)
	return h
}

// AddTo appends every line to h.
func (f Lines) AddTo(h http.Header) {
	n := strings.Count(f.block, "\r\n")
	backing := make([]string, 0, n)
	for name, value := range f.All() {
		if have, ok := h[name]; ok {
			h[name] = append(have, value)
			continue
		}
		backing = append(backing, value)
		h[name] = backing[len(backing)-1 : len(backing) : len(backing)]
	}
}
