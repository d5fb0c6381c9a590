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
	long := http.Header{}
	for i := range keptLines + 1 {
		long.Add("X-Line", fmt.Sprint(i))
	}
	for name, tc := range map[string]struct {
		header http.Header
		flags  markFlags
	}{
		"empty":            {http.Header{}, 0},
		"before":           {http.Header{"Accept-Ranges": {"bytes"}, "Access-Control-Allow-Origin": {"*"}}, 0},
		"between":          {http.Header{"Allow": {"GET"}, "Cache-Control": {"max-age=1"}, "Cdn-Cache-Control": {"a", "b"}, "Content-Language": {"en"}}, 0},
		"all around":       {http.Header{"A": {"1"}, "Content-Type": {"text/plain"}, "Date": {"d"}, "Etag": {`"e"`}, "Last-Modified": {"l"}}, markTyped},
		"weak tag":         {http.Header{"Etag": {`W/"e"`}, "Last-Modified": {"l"}}, 0},
		"two tags":         {http.Header{"Etag": {`W/"e"`, `"f"`}, "Last-Modified": {"l"}}, 0},
		"empty tag":        {http.Header{"Etag": {"", `"f"`}, "Last-Modified": {"l"}}, 0},
		"many lines":       {long, markManyLines},
		"computed line":    {http.Header{"Age": {"3"}}, markUnusual},
		"longer than that": {http.Header{"X": {strings.Repeat("x", 1<<16)}}, markUnusual},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Record{Fields: NewFields(tc.header)}
			r.Prepare()
			if r.marks.flags != tc.flags|markMade {
				t.Fatalf("flags %b, want %b", r.marks.flags, tc.flags|markMade)
			}
			if r.marks.has(markUnusual) {
				return
			}
			checkMarks(t, r.Fields, &r.marks, tc.header)
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
	line := 0
	for name := range f.All() {
		if kept := m.kept>>line&1 == 1; line < keptLines && kept != policy.InNotModified(name, etag) {
			t.Errorf("line %d, %s: kept %t", line, name, kept)
		}
		line++
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
