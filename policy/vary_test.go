package policy

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestVaryOf(t *testing.T) {
	for name, tt := range map[string]struct {
		lines []string
		want  []string
		star  bool
	}{
		"absent":                       {nil, nil, false},
		"empty":                        {[]string{""}, nil, false},
		"one":                          {[]string{"accept-encoding"}, []string{"Accept-Encoding"}, false},
		"sorted, each once":            {[]string{"foo, Bar, FOO"}, []string{"Bar", "Foo"}, false},
		"RFC 9110 §5.3 several lines":  {[]string{"Accept-Language", "X-Compat"}, []string{"Accept-Language", "X-Compat"}, false},
		"RFC 9111 §4.1 star":           {[]string{"*"}, nil, true},
		"star twice":                   {[]string{"*, *"}, nil, true},
		"star on two lines":            {[]string{"*", "*"}, nil, true},
		"star after nothing":           {[]string{", *"}, nil, true},
		"star on a line after nothing": {[]string{"", "*"}, nil, true},
		"star first":                   {[]string{"*, Foo"}, nil, true},
		"star last":                    {[]string{"Foo, *"}, nil, true},
		"what is no field name":        {[]string{"Foo Bar"}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, star := VaryOf(http.Header{"Vary": tt.lines})
			if diff := cmp.Diff(tt.want, got); diff != "" || star != tt.star {
				t.Errorf("star = %v, fields (-want +got):\n%s", star, diff)
			}
		})
	}
}

func TestAppendVariant(t *testing.T) {
	const ae, al = "Accept-Encoding: ", "Accept-Language: "
	for name, tt := range map[string]struct {
		vary string
		a, b []string
		same bool
	}{
		"RFC 9111 §4.1 same value":                      {"Foo", []string{"Foo: 1"}, []string{"Foo: 1"}, true},
		"RFC 9111 §4.1 other value":                     {"Foo", []string{"Foo: 1"}, []string{"Foo: 2"}, false},
		"RFC 9111 §4.1 absent from both":                {"Foo", nil, []string{"Other: 1"}, true},
		"RFC 9111 §4.1 absent from one":                 {"Foo", nil, []string{"Foo: 1"}, false},
		"absent is not empty":                           {"Foo", nil, []string{"Foo:"}, false},
		"fields that are not listed":                    {"Foo", []string{"Foo: 1", "Other: 2"}, []string{"Foo: 1", "Other: 3"}, true},
		"two fields":                                    {"Foo, Bar", []string{"Foo: 1", "Bar: abc"}, []string{"Foo: 1", "Bar: abc"}, true},
		"two fields, one differs":                       {"Foo, Bar", []string{"Foo: 1", "Bar: abc"}, []string{"Foo: 2", "Bar: abc"}, false},
		"two fields, one absent":                        {"Foo, Bar", []string{"Foo: 1"}, nil, false},
		"a value does not move to the next field":       {"Foo, Bar", []string{"Foo: 1"}, []string{"Bar: 1"}, false},
		"RFC 9110 §5.3 lines are combined":              {"Foo", []string{"Foo: 1, 2"}, []string{"Foo: 1", "Foo: 2"}, true},
		"combined lines are not the first":              {"Foo", []string{"Foo: 1", "Foo: 2"}, []string{"Foo: 1"}, false},
		"space around commas":                           {"Foo", []string{"Foo: 1,2"}, []string{"Foo:  1 ,\t2 "}, true},
		"space inside a member":                         {"Foo", []string{"Foo: a b"}, []string{"Foo: ab"}, false},
		"space inside a quoted string":                  {"Foo", []string{`Foo: "1,2"`}, []string{`Foo: "1, 2"`}, false},
		"order of an unknown list":                      {"Foo", []string{"Foo: 1, 2"}, []string{"Foo: 2, 1"}, false},
		"empty members of an unknown list":              {"Foo", []string{"Foo: 1,"}, []string{"Foo: 1"}, false},
		"case of an unknown value":                      {"Foo", []string{"Foo: a"}, []string{"Foo: A"}, false},
		"cookies are no list":                           {"Cookie", []string{"Cookie: a=1, 2"}, []string{"Cookie: a=1,2"}, false},
		"Accept-Encoding order":                         {"Accept-Encoding", []string{ae + "gzip, br"}, []string{ae + "br,gzip"}, true},
		"Accept-Encoding case":                          {"Accept-Encoding", []string{ae + "GZIP"}, []string{ae + "gzip"}, true},
		"Accept-Encoding weight of 1":                   {"Accept-Encoding", []string{ae + "gzip;q=1.0"}, []string{ae + "gzip"}, true},
		"Accept-Encoding spelling of a weight":          {"Accept-Encoding", []string{ae + "gzip; Q=0.50"}, []string{ae + "gzip;q=0.5"}, true},
		"Accept-Encoding other weight":                  {"Accept-Encoding", []string{ae + "gzip;q=0.5"}, []string{ae + "gzip"}, false},
		"RFC 9110 §12.5.3 refused coding":               {"Accept-Encoding", []string{ae + "gzip;q=0"}, []string{ae + "gzip"}, false},
		"RFC 9110 §8.4.1.3 x-gzip":                      {"Accept-Encoding", []string{ae + "x-gzip"}, []string{ae + "gzip"}, true},
		"Accept-Encoding on two lines":                  {"Accept-Encoding", []string{ae + "gzip", ae + "br"}, []string{ae + "br, gzip"}, true},
		"Accept-Encoding on two lines is not the first": {"Accept-Encoding", []string{ae + "gzip", ae + "br"}, []string{ae + "gzip"}, false},
		"Accept-Encoding absent and empty":              {"Accept-Encoding", nil, []string{ae}, false},
		"Accept-Encoding another coding":                {"Accept-Encoding", []string{ae + "gzip, deflate, br"}, []string{ae + "gzip, deflate, br, zstd"}, false},
		"Accept-Encoding that cannot be read":           {"Accept-Encoding", []string{ae + "gzip;q=x"}, []string{ae + "gzip"}, false},
		"Accept-Language order of equals":               {"Accept-Language", []string{al + "en, de"}, []string{al + "de, en"}, true},
		"Accept-Language case":                          {"Accept-Language", []string{al + "en, de"}, []string{al + "eN, De"}, true},
		"Accept-Language space":                         {"Accept-Language", []string{al + "en, de"}, []string{al + " en ,   de"}, true},
		"RFC 9110 §12.5.4 weights":                      {"Accept-Language", []string{al + "en;q=0.5, de"}, []string{al + "de, en;q=0.500"}, true},
		"RFC 9110 §12.5.4 other ranking":                {"Accept-Language", []string{al + "en;q=0.5, de"}, []string{al + "de;q=0.5, en"}, false},
		"weights between 0 and 1":                       {"Accept-Language", []string{al + "en;q=0.05"}, []string{al + "en;q=0.5"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			vary, _ := VaryOf(fields("Vary: " + tt.vary))
			a := AppendVariant([]byte("x"), vary, fields(tt.a...))
			b := AppendVariant([]byte("x"), vary, fields(tt.b...))
			if same := string(a) == string(b); same != tt.same {
				t.Errorf("same variant = %v\n%q\n%q", same, a, b)
			}
		})
	}
}

// A field with very many members is compared as it is: normalising it would take time that grows with its square.
func TestAppendVariantIsBounded(t *testing.T) {
	many := strings.Repeat("a, ", maxWeighted) + "B"
	a := AppendVariant(nil, []string{"Accept-Encoding"}, fields("Accept-Encoding: "+many))
	if !strings.Contains(string(a), "B") || strings.Count(string(a), ",") != maxWeighted {
		t.Errorf("long field became %q", a)
	}
}

func TestAppendVariantDoesNotAllocate(t *testing.T) {
	vary := []string{"Accept", "Accept-Encoding", "Accept-Language", "X-Absent"}
	h := fields("Accept: text/html, */*;q=0.1", "Accept-Encoding: gzip, deflate, br", "Accept-Language: de-DE, de;q=0.9, EN;q=0.8")
	dst := make([]byte, 0, 512)
	if n := testing.AllocsPerRun(100, func() { dst = AppendVariant(dst[:0], vary, h) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestPreferredLanguage(t *testing.T) {
	for value, want := range map[string]string{
		"de": "de", "DE-at": "de-at", "fr;q=0.5, de;q=1.0": "de", "en, de": "", "*": "", "de;q=0": "", "": "",
		"en;q=0.3, *;q=0.5": "", "en, EN": "en", "en;x=1": "",
	} {
		if got, ok := PreferredLanguage(fields("Accept-Language: " + value)); got != want || ok != (want != "") {
			t.Errorf("PreferredLanguage(%q) = %q, %v; want %q", value, got, ok, want)
		}
	}
	if got, ok := PreferredLanguage(nil); ok {
		t.Errorf("no field prefers %q", got)
	}
}

// A stored response in German answers who likes German best, whatever the request that fetched it said, if all other
// fields match.
func TestAppendLanguage(t *testing.T) {
	vary := []string{"Accept-Language", "Foo"}
	stored, ok := AppendLanguage(nil, vary, fields("Accept-Language: en, de", "Foo: 1"), "De")
	if !ok {
		t.Fatal("no key for a stored response with one language")
	}
	for name, tt := range map[string]struct {
		request []string
		same    bool
	}{
		"likes it best":  {[]string{"Accept-Language: fr;q=0.5, de;q=1.0", "Foo: 1"}, true},
		"likes another":  {[]string{"Accept-Language: fr, de;q=0.5", "Foo: 1"}, false},
		"other field":    {[]string{"Accept-Language: de", "Foo: 2"}, false},
		"a region of it": {[]string{"Accept-Language: de-AT", "Foo: 1"}, false},
	} {
		h := fields(tt.request...)
		language, _ := PreferredLanguage(h)
		key, ok := AppendLanguage(nil, vary, h, language)
		if same := ok && string(key) == string(stored); same != tt.same {
			t.Errorf("%s: selected = %v", name, same)
		}
	}
	for _, language := range []string{"", "*", "de, en", "de en"} {
		if key, ok := AppendLanguage([]byte("x"), vary, nil, language); ok || string(key) != "x" {
			t.Errorf("language %q gave the key %q", language, key)
		}
	}
	if _, ok := AppendLanguage(nil, []string{"Foo"}, nil, "de"); ok {
		t.Error("a response that does not vary on Accept-Language was given a language key")
	}
	if exact := AppendVariant(nil, vary, fields("Accept-Language: de", "Foo: 1")); string(exact) == string(stored) {
		t.Error("language keys and variant keys coincide")
	}
}
