package cache

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/swrproxy/swrproxy/policy"
)

// The marks of a block say what reading its lines one by one says.
func TestMarks(t *testing.T) {
	long := http.Header{"Content-Type": {"text/plain"}}
	for i := range 100 {
		long.Add("X-Line", fmt.Sprint(i))
	}
	for name, tc := range map[string]struct {
		header http.Header
		flags  markFlags
	}{
		"empty":      {http.Header{}, 0},
		"before":     {http.Header{"Accept-Ranges": {"bytes"}, "Access-Control-Allow-Origin": {"*"}}, 0},
		"between":    {http.Header{"Allow": {"GET"}, "Cache-Control": {"max-age=1"}, "Cdn-Cache-Control": {"a", "b"}, "Content-Language": {"en"}}, 0},
		"all around": {http.Header{"A": {"1"}, "Content-Type": {"text/plain"}, "Date": {"d"}, "Etag": {`"e"`}, "Last-Modified": {"l"}}, markTyped | markTag},
		"weak tag":   {http.Header{"Etag": {`W/"e"`}, "Last-Modified": {"l"}}, markTag},
		"two tags":   {http.Header{"Etag": {`W/"e"`, `"f"`}, "Last-Modified": {"l"}}, markTag},
		"empty tag":  {http.Header{"Etag": {"", `"f"`}, "Last-Modified": {"l"}}, markTag},
		"odd tag":    {http.Header{"Etag": {"e"}, "Last-Modified": {"l"}}, 0},
		"many lines": {long, markTyped},
		"four runs": {http.Header{
			"Accept-Ranges": {"bytes"}, "Cache-Control": {"no-cache"}, "Content-Encoding": {"gzip"}, "Content-Language": {"en"},
			"Content-Security-Policy": {"x"}, "Content-Type": {"text/plain"}, "Etag": {`"e"`}, "Last-Modified": {"l"},
		}, markTyped | markTag},
		"five runs": {http.Header{
			"Accept-Ranges": {"bytes"}, "Cache-Control": {"no-cache"}, "Content-Encoding": {"gzip"}, "Content-Location": {"/"}, "Content-Md5": {"m"},
			"Content-Security-Policy": {"x"}, "Content-Type": {"text/plain"}, "Etag": {`"e"`}, "Last-Modified": {"l"},
		}, markTyped | markTag | markManyRuns},
		"run over own":     {http.Header{"Accept-Ranges": {"bytes"}, "Content-Encoding": {"gzip"}, "Digest": {"d"}, "Vary": {"x"}}, 0},
		"two for one":      {http.Header{"Content-Disposition": {strings.Repeat("x", 200)}, "Content-Type": {strings.Repeat("y", 100)}}, markTyped},
		"line beyond runs": {http.Header{"Content-Disposition": {strings.Repeat("x", 300)}}, markManyRuns},
		"computed line":    {http.Header{"Age": {"3"}}, markUnusual},
		"longer than that": {http.Header{"X": {strings.Repeat("x", 1<<16)}}, markUnusual},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Record{Fields: NewFields(tc.header)}
			if r.Fields.marks.flags != tc.flags|markMade {
				t.Fatalf("flags %b, want %b", r.Fields.marks.flags, tc.flags|markMade)
			}
			if r.Fields.marks.has(markUnusual) {
				return
			}
			checkMarks(t, r.Fields, &r.Fields.marks, tc.header)
		})
	}
}

func checkMarks(t *testing.T, f Fields, m *marks, h http.Header) {
	t.Helper()
	etag := firstNonEmpty(h["Etag"])
	if got := m.etagOf(f.block); got != etag {
		t.Errorf("etag %q, want %q", got, etag)
	}
	for i, own := range ownFields {
		before, after := f.block[:m.own[i]], f.block[m.own[i]:]
		for name := range FieldsOf(before).All() {
			if name > own {
				t.Errorf("%s stands behind %s", own, name)
			}
		}
		for name := range FieldsOf(after).All() {
			if name < own {
				t.Errorf("%s stands before %s", own, name)
			}
		}
	}
	if !m.has(markManyRuns) {
		checkNotModified(t, f, m, etag)
	}
}

// checkNotModified compares the lines of a 304 as they are copied with those that it should have.
func checkNotModified(t *testing.T, f Fields, m *marks, etag string) {
	t.Helper()
	var want strings.Builder
	for name, value := range f.All() {
		if policy.InNotModified(name, etag) {
			writeField(&want, name, value)
		}
	}
	w := headWriter{block: f.block, m: m}
	for _, own := range m.own {
		w.upTo(int(own))
	}
	w.upTo(len(f.block))
	if string(w.b) != want.String() {
		t.Errorf("304 with\n%s, want\n%s", w.b, want.String())
	}
}

func firstNonEmpty(values []string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
