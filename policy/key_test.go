package policy

import (
	"errors"
	"net/http"
	"strings"
	"testing"
)

func mustKey(t testing.TB, spec KeySpec) *Key {
	t.Helper()
	k, err := NewKey(spec)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// keyOf is the key of a GET on a head, as a server receives it.
func keyOf(t testing.TB, k *Key, head, scheme string) string {
	t.Helper()
	r := received(t, head)
	target, err := NewTarget(r, scheme)
	if err != nil {
		t.Fatal(err)
	}
	return string(k.Append(nil, &target, r.Header))
}

func TestKey(t *testing.T) {
	plain := KeySpec{Space: "site"}
	ignore := KeySpec{Query: QuerySpec{Ignore: []string{"utm_*", "x"}}}
	only := KeySpec{Query: QuerySpec{Only: []string{"id", "page*"}}}
	sorted := KeySpec{Query: QuerySpec{Sort: true}}
	get := func(uri string, fields ...string) string {
		return "GET " + uri + " HTTP/1.1\nHost: a.example\n" + strings.Join(fields, "\n")
	}
	for name, tt := range map[string]struct {
		spec KeySpec
		a, b string
		same bool
	}{
		"RFC 9111 §2 same URI":                    {plain, get("/p?q=1"), get("/p?q=1"), true},
		"GET and HEAD share a key":                {plain, get("/p"), "HEAD /p HTTP/1.1\nHost: a.example", true},
		"other path":                              {plain, get("/p"), get("/q"), false},
		"other query":                             {plain, get("/p?a=1"), get("/p?a=2"), false},
		"query or none":                           {plain, get("/p?a"), get("/p"), false},
		"question mark in the path":               {plain, get("/p%3Fa"), get("/p?a"), false},
		"other host":                              {plain, get("/p"), "GET /p HTTP/1.1\nHost: b.example", false},
		"other port":                              {plain, get("/p"), "GET /p HTTP/1.1\nHost: a.example:8080", false},
		"RFC 9110 §4.2.3 case of the host":        {plain, get("/p"), "GET /p HTTP/1.1\nHost: A.EXAMPLE:80", true},
		"RFC 9112 §3.3 absolute form":             {plain, get("/p"), "GET http://a.example/p HTTP/1.1\nHost: b.example", true},
		"slash and encoded slash":                 {plain, get("/a/b"), get("/a%2Fb"), false},
		"RFC 3986 §6.2.2 spellings":               {plain, get("/a/b"), get("/x/../%61/./b"), true},
		"order of parameters counts":              {plain, get("/?a=1&b=2"), get("/?b=2&a=1"), false},
		"spelling of the query counts":            {plain, get("/?a=1"), get("/?%61=1"), false},
		"a parameter and an empty one":            {plain, get("/?a"), get("/?a="), false},
		"fields that are not configured":          {plain, get("/", "X-Forwarded-Host: evil"), get("/"), true},
		"ignored parameters":                      {ignore, get("/?utm_source=x&a=1&x"), get("/?a=1&utm_id=y"), true},
		"ignored by decoded name":                 {ignore, get("/?%75tm_source=x&a=1"), get("/?a=1"), true},
		"only ignored parameters":                 {ignore, get("/?utm_source=x"), get("/"), true},
		"others still count":                      {ignore, get("/?utm_source=x&a=1"), get("/?utm_source=x&a=2"), false},
		"a semicolon may be a separator":          {ignore, get("/?utm_source=x;a=1"), get("/?utm_source=x;a=2"), false},
		"only these parameters":                   {only, get("/?id=1&z=2&page_no=3"), get("/?id=1&page_no=3&y"), true},
		"only these, and they differ":             {only, get("/?id=1"), get("/?id=2"), false},
		"no query at all":                         {KeySpec{Query: QuerySpec{IgnoreAll: true}}, get("/?id=1"), get("/"), true},
		"sorted":                                  {sorted, get("/?b=2&a=1"), get("/?a=1&b=2"), true},
		"sorted, repeated names keep their order": {sorted, get("/?a=1&b&a=2"), get("/?a=2&b&a=1"), false},
		"sorted, repeated names together":         {sorted, get("/?a=1&b&a=2"), get("/?b&a=1&a=2"), true},
		"sorted, values still count":              {sorted, get("/?b=2&a=1"), get("/?b=1&a=2"), false},
		"field in the key":                        {KeySpec{Headers: []string{"x-a"}}, get("/", "X-A: 1"), get("/", "X-A: 2"), false},
		"field in the key, absent and empty":      {KeySpec{Headers: []string{"x-a"}}, get("/"), get("/", "X-A:"), false},
		"field in the key, normalised":            {KeySpec{Headers: []string{"accept-encoding"}}, get("/", "Accept-Encoding: gzip, BR"), get("/", "Accept-Encoding: br,gzip"), true},
		"order of configured fields":              {KeySpec{Headers: []string{"b", "a"}}, get("/", "A: 1", "B: 2"), get("/", "B: 2", "A: 1"), true},
		"a value does not move to another field":  {KeySpec{Headers: []string{"a", "b"}}, get("/", "A: 1"), get("/", "B: 1"), false},
		"cookie in the key":                       {KeySpec{Cookies: []string{"lang"}}, get("/", "Cookie: lang=de"), get("/", "Cookie: lang=en"), false},
		"other cookies":                           {KeySpec{Cookies: []string{"lang"}}, get("/", "Cookie: sid=1; lang=de"), get("/", "Cookie: lang=de; sid=2"), true},
		"cookie absent and empty":                 {KeySpec{Cookies: []string{"lang"}}, get("/"), get("/", "Cookie: lang="), false},
		"cookie names are whole":                  {KeySpec{Cookies: []string{"lang"}}, get("/", "Cookie: xlang=de"), get("/"), true},
		"cookie twice":                            {KeySpec{Cookies: []string{"a"}}, get("/", "Cookie: a=1; a=2"), get("/", "Cookie: a=1"), false},
	} {
		t.Run(name, func(t *testing.T) {
			k := mustKey(t, tt.spec)
			a, b := keyOf(t, k, tt.a, "http"), keyOf(t, k, tt.b, "http")
			if same := a == b; same != tt.same {
				t.Errorf("same key = %v\n%q\n%q", same, a, b)
			}
		})
	}
	k, other := mustKey(t, plain), mustKey(t, KeySpec{Space: "other"})
	if keyOf(t, k, get("/"), "http") == keyOf(t, k, get("/"), "https") {
		t.Error("schemes share a key")
	}
	if keyOf(t, k, get("/"), "http") == keyOf(t, other, get("/"), "http") {
		t.Error("key spaces share a key")
	}
}

func TestKeySimple(t *testing.T) {
	if !mustKey(t, KeySpec{Query: QuerySpec{Sort: true}}).Simple() {
		t.Error("a key of the target alone is not simple")
	}
	if mustKey(t, KeySpec{Headers: []string{"a"}}).Simple() || mustKey(t, KeySpec{Cookies: []string{"a"}}).Simple() {
		t.Error("a key with fields or cookies is simple")
	}
}

func TestNewKeyRefuses(t *testing.T) {
	for _, spec := range []KeySpec{
		{Space: "a\x00b"},
		{Headers: []string{"a b"}},
		{Cookies: []string{""}},
		{Query: QuerySpec{Ignore: []string{""}}},
		{Query: QuerySpec{Only: []string{"a=b"}}},
	} {
		if _, err := NewKey(spec); !errors.Is(err, ErrBadPattern) {
			t.Errorf("NewKey(%+v) = %v", spec, err)
		}
	}
}

func TestKeyAppendDoesNotAllocate(t *testing.T) {
	target := Target{"GET", "https", "example.org", "/a/b", "utm_source=x&b=2&a=1"}
	dst := make([]byte, 0, 512)
	for name, spec := range map[string]KeySpec{
		"plain":           {Space: "s"},
		"ignore":          {Query: QuerySpec{Ignore: []string{"utm_*"}}},
		"ignore and sort": {Query: QuerySpec{Ignore: []string{"utm_*"}, Sort: true}},
	} {
		k := mustKey(t, spec)
		if n := testing.AllocsPerRun(100, func() { dst = k.Append(dst[:0], &target, nil) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	k := mustKey(t, KeySpec{Headers: []string{"Accept-Encoding"}, Cookies: []string{"lang"}})
	h := http.Header{"Accept-Encoding": {"gzip, br"}, "Cookie": {"a=b; lang=de"}}
	if n := testing.AllocsPerRun(100, func() { dst = k.Append(dst[:0], &target, h) }); n != 0 {
		t.Errorf("with fields: %v allocations", n)
	}
}
