package policy

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestConditional(t *testing.T) {
	for name, tt := range map[string]struct{ stored, want http.Header }{
		"RFC 9111 §4.3.1 ETag":          {fields(`ETag: "a"`), fields(`If-None-Match: "a"`)},
		"RFC 9111 §4.3.1 weak ETag":     {fields(`ETag: W/"a"`), fields(`If-None-Match: W/"a"`)},
		"RFC 9111 §4.3.1 Last-Modified": {fields("Last-Modified: " + date(0)), fields("If-Modified-Since: " + date(0))},
		"RFC 9111 §4.3.1 both": {
			fields(`ETag: "a"`, "Last-Modified: "+date(0)),
			fields(`If-None-Match: "a"`, "If-Modified-Since: "+date(0)),
		},
		"no validator": {fields("Date: " + date(0)), nil},
		"empty":        {fields("ETag:"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Conditional(tt.stored)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStripConditions(t *testing.T) {
	h := fields("If-Match: a", "If-None-Match: a", "If-Modified-Since: a", "If-Unmodified-Since: a", "If-Range: a", "Range: a", "Accept: a")
	StripConditions(h)
	if diff := cmp.Diff(fields("Accept: a"), h); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
}

func TestFreshen(t *testing.T) {
	for name, tt := range map[string]struct{ stored, update, want []string }{
		"RFC 9111 §3.2 fields are replaced": {[]string{"A: 1", "B: 1"}, []string{"A: 2"}, []string{"A: 2", "B: 1"}},
		"RFC 9111 §3.2 all lines are":       {[]string{"A: 1", "A: 2"}, []string{"A: 3"}, []string{"A: 3"}},
		"RFC 9111 §3.2 fields are added":    {[]string{"A: 1"}, []string{"B: 2"}, []string{"A: 1", "B: 2"}},
		"RFC 9111 §3.2 Content-Length stays": {
			[]string{"Content-Length: 1000"}, []string{"Content-Length: 0"}, []string{"Content-Length: 1000"},
		},
		"Content-Length is not added":             {nil, []string{"Content-Length: 0"}, nil},
		"RFC 9111 §3.2 fields of the bytes stay":  {[]string{"Content-Encoding: br"}, []string{"Content-Encoding: gzip", "Content-Range: x", "Content-MD5: x"}, []string{"Content-Encoding: br"}},
		"RFC 9111 §3.2 the rest of Content-* not": {[]string{"Content-Type: a/b", "Content-Foo: 1"}, []string{"Content-Type: c/d", "Content-Foo: 2"}, []string{"Content-Type: c/d", "Content-Foo: 2"}},
		"Content-Type that the 304 lacks stays":   {[]string{"Content-Type: application/json"}, []string{"Cache-Control: max-age=1"}, []string{"Content-Type: application/json", "Cache-Control: max-age=1"}},
		"RFC 9111 §3.1 hop-by-hop fields":         {nil, []string{"Connection: close, A", "Keep-Alive: x", "Transfer-Encoding: chunked", "A: 1", "B: 1"}, []string{"B: 1"}},
		"ETag stays":                              {[]string{`ETag: "a"`}, []string{`ETag: "b"`}, []string{`ETag: "a"`}},
		"ETag is added to a date":                 {[]string{"Last-Modified: " + date(0)}, []string{`ETag: "b"`}, []string{"Last-Modified: " + date(0), `ETag: "b"`}},
		"RFC 9111 §4.3.4 freshness is the new one": {
			[]string{"Cache-Control: max-age=1", "Expires: " + date(0), "Date: " + date(-60*sec), "Age: 5"},
			[]string{"Cache-Control: max-age=2", "Expires: " + date(60*sec), "Date: " + date(0)},
			[]string{"Cache-Control: max-age=2", "Expires: " + date(60*sec), "Date: " + date(0)},
		},
		"the stored Date and Age do not date the validation": {[]string{"Date: " + date(-60*sec), "Age: 5"}, nil, nil},
		"RFC 9111 §4.1 Vary":                                 {[]string{"Vary: A"}, []string{"Vary: B"}, []string{"Vary: B"}},
		"Set-Cookie":                                         {[]string{"Set-Cookie: a=b"}, []string{"Set-Cookie: a=c"}, []string{"Set-Cookie: a=c"}},
	} {
		t.Run(name, func(t *testing.T) {
			stored, update := fields(tt.stored...), fields(tt.update...)
			if diff := cmp.Diff(fields(tt.want...), Freshen(stored, update)); diff != "" {
				t.Errorf("header (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(fields(tt.stored...), stored) + cmp.Diff(fields(tt.update...), update); diff != "" {
				t.Errorf("arguments were changed:\n%s", diff)
			}
		})
	}
}

// RFC 9111 §4.3.4: after a validation at 70 s, max-age=60 counts from there, with and without a Date in the 304.
func TestFreshnessAfterValidation(t *testing.T) {
	stored := fields("Cache-Control: max-age=60", `ETag: "a"`, "Date: "+date(0), "Age: 3")
	validated := t0.Add(70 * sec)
	for _, update := range []http.Header{fields("Date: " + date(70*sec)), {}} {
		adm := Admit(nil, reads(), 200, Freshen(stored, update), validated, validated)
		if v := Judge(adm.Life, reads(), t0.Add(100*sec)); v.Use != Fresh || !adm.Store {
			t.Errorf("with %v: %v (%v) 30 s after the validation", update, v.Use, v.Reason)
		}
	}
}

func TestSelects(t *testing.T) {
	lm, later := "Last-Modified: "+date(0), "Last-Modified: "+date(sec)
	for name, tt := range map[string]struct {
		stored, update []string
		want           bool
	}{
		"RFC 9111 §4.3.4 same strong ETag":      {[]string{`ETag: "a"`}, []string{`ETag: "a"`}, true},
		"RFC 9111 §4.3.4 other strong ETag":     {[]string{`ETag: "a"`}, []string{`ETag: "b"`}, false},
		"RFC 9111 §4.3.4 same ETag, other date": {[]string{`ETag: "a"`, lm}, []string{`ETag: "a"`, later}, true},
		"RFC 9111 §4.3.4 same weak ETag":        {[]string{`ETag: W/"a"`}, []string{`ETag: W/"a"`}, true},
		"RFC 9111 §4.3.4 weakened on the way":   {[]string{`ETag: "a"`}, []string{`ETag: W/"a"`}, true},
		"RFC 9111 §4.3.4 other weak ETag":       {[]string{`ETag: W/"a"`}, []string{`ETag: W/"b"`}, false},
		"RFC 9111 §4.3.4 same date":             {[]string{lm}, []string{lm}, true},
		"RFC 9111 §4.3.4 other date":            {[]string{lm}, []string{later}, false},
		"date where an ETag was sent":           {[]string{`ETag: "a"`, lm}, []string{lm}, true},
		"ETag in answer to a date":              {[]string{lm}, []string{`ETag: "a"`, lm}, true},
		"ETag in answer to another date":        {[]string{lm}, []string{`ETag: "a"`, later}, false},
		"deviation: no validator":               {[]string{`ETag: "a"`, lm}, nil, true},
		"RFC 9111 §4.3.4 no validator anywhere": {nil, nil, true},
		"an ETag that is none":                  {[]string{`ETag: "a"`}, []string{"ETag: a"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			stored, update := fields(tt.stored...), fields(tt.update...)
			if got := Selects(stored, update); got != tt.want {
				t.Errorf("selects = %v", got)
			}
			if strict, trusting := (&Settings{}).Selects(stored, update), (&Settings{TrustNotModified: true}).Selects(stored, update); strict != tt.want || !trusting {
				t.Errorf("under settings: %v, trusting: %v", strict, trusting)
			}
		})
	}
}

func TestHeadFreshens(t *testing.T) {
	stored := fields(`ETag: "a"`, "Last-Modified: "+date(0))
	for name, tt := range map[string]struct {
		head            []string
		size            int64
		ok, invalidates bool
	}{
		"RFC 9111 §4.3.5 all agree":    {[]string{`ETag: "a"`, "Last-Modified: " + date(0), "Content-Length: 10"}, 10, true, false},
		"RFC 9111 §4.3.5 nothing said": {nil, 10, true, false},
		"RFC 9111 §4.3.5 other ETag":   {[]string{`ETag: "b"`}, 10, false, true},
		"RFC 9111 §4.3.5 other date":   {[]string{"Last-Modified: " + date(sec)}, 10, false, true},
		"RFC 9111 §4.3.5 other length": {[]string{"Content-Length: 11"}, 10, false, true},
		"length unknown here":          {[]string{"Content-Length: 11"}, -1, true, false},
		"length that cannot be read":   {[]string{"Content-Length: x"}, 10, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			if ok, invalidates := HeadFreshens(stored, fields(tt.head...), tt.size); ok != tt.ok || invalidates != tt.invalidates {
				t.Errorf("HeadFreshens = %v, %v; want %v, %v", ok, invalidates, tt.ok, tt.invalidates)
			}
		})
	}
	if ok, invalidates := HeadFreshens(fields(), fields(`ETag: "b"`), 0); ok || !invalidates {
		t.Error("a stored response without ETag was freshened by a HEAD with one")
	}
}
