package integration

import (
	"net/http"
	"testing"
)

// Promise: the same bytes are matched, keyed and forwarded, and nothing that shapes an answer is left out of its key.

// KEY-01: what the origin may reflect is either set by us or not sent.
func TestOverridesByClientsDoNotReachTheOrigin(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	p := before(t, o)
	for _, name := range []string{
		"X-Forwarded-Host", "X-Host", "X-Forwarded-Scheme", "X-Original-URL", "X-Rewrite-URL",
		"X-HTTP-Method-Override", "X-Forwarded-Prefix", "Forwarded",
	} {
		path := "/reflect/" + name
		o.on(path, echo(name, "Cache-Control: max-age=60"))
		evil := p.get(path, name+": evil.example")
		clean := p.get(path)
		if clean.Body != evil.Body {
			t.Errorf("%s is not in the key but changes the answer: %q, %q", name, evil.Body, clean.Body)
		}
		if evil.Body == name+" evil.example" {
			t.Errorf("%s went through", name)
		}
	}
}

// KEY-06: the query counts as it is, unless a rule says otherwise.
func TestQueriesAreKeyedAsTheyAre(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/q", page("Cache-Control: max-age=60"))
	p := before(t, o)
	queries := []string{"", "?", "?a=1&b=2", "?b=2&a=1", "?a=1&a=2", "?a=2&a=1", "?a", "?a=", "?a=1;b=2"}
	seen := make(map[string]string)
	for range 2 {
		for _, q := range queries {
			body := p.get("/q" + q).Body
			if was, ok := seen[q]; ok && was != body {
				t.Errorf("/q%s: %q, then %q", q, was, body)
			}
			seen[q] = body
		}
	}
	for i, a := range queries {
		for _, b := range queries[i+1:] {
			if seen[a] == seen[b] && !(a == "" && b == "?") {
				t.Errorf("/q%s and /q%s share an answer", a, b)
			}
		}
	}
}

func TestQueriesAreKeyedAsARuleSays(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/q", page("Cache-Control: max-age=60"))
	p := start(t, conf{Origin: o.url, Rules: "  - { origin: app, key: { query: { ignore: [\"utm_*\"], sort: true } } }"})
	for _, q := range []string{"?a=1&b=2", "?b=2&a=1", "?b=2&utm_source=x&a=1", "?utm_medium=y&a=1&b=2"} {
		p.get("/q"+q).want(t, http.StatusOK, version(1, "/q"))
	}
	p.get("/q?a=1&b=3").want(t, http.StatusOK, version(2, "/q"))
	p.get("/q?a=2&a=1").want(t, http.StatusOK, version(3, "/q"))
	p.get("/q?a=1&a=2").want(t, http.StatusOK, version(4, "/q"))
}

// KEY-07: a GET with content is neither answered from the cache nor stored.
func TestGetWithABodyIsNotCached(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/fat", page("Cache-Control: max-age=60"))
	p := before(t, o)
	fat := request("GET", "/fat", "Content-Length: 6") + "q=evil"
	fetch(t, p.Addr(), fat).want(t, http.StatusOK, version(1, "/fat"))
	p.get("/fat").want(t, http.StatusOK, version(2, "/fat"))
	fetch(t, p.Addr(), fat).want(t, http.StatusOK, version(3, "/fat"))
	p.get("/fat").want(t, http.StatusOK, version(2, "/fat"))
}

// KEY-09: one normaliser (RFC 3986 §6.2.2); an encoded slash stays what it is; broken percent encoding is refused.
func TestPathsAreNormalisedOnce(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).onAny(func(w http.ResponseWriter, r *http.Request, n int) {
		answer(http.StatusOK, r.RequestURI, "Cache-Control: max-age=60")(w, r, n)
	})
	p := start(t, conf{Origin: o.url, Rules: "  - { name: shut, match: { path: \"/private/*\" }, origin: app, pass: true }\n  - { name: open, origin: app }"})
	cases := []struct {
		path, forwarded string
		private         bool
	}{
		{"/x/../private/a", "/private/a", true},
		{"/%70rivate/a", "/private/a", true},
		{"/./private/./a", "/private/a", true},
		{"/private/%2e%2e/public", "/public", false},
		{"/private%2Fa", "/private%2Fa", false},
		{"/private%2fa", "/private%2Fa", false},
		{"/a%7eb", "/a~b", false},
		{"/%252e", "/%252e", false},
	}
	for _, c := range cases {
		first, second := p.get(c.path), p.get(c.path)
		first.want(t, http.StatusOK, c.forwarded)
		second.want(t, http.StatusOK, c.forwarded)
		if second.hit() == c.private {
			t.Errorf("%s: hit=%v, so the rule for /private/ matched=%v, want %v", c.path, second.hit(), !second.hit(), c.private)
		}
	}
	for _, bad := range []string{"/%", "/%zz", "/a%2", "/%00%"} {
		if r := p.get(bad); r.Status != http.StatusBadRequest {
			t.Errorf("%s: status %d, want 400", bad, r.Status)
		}
	}
}

// Two rules never share a record.
func TestRulesKeepTheirRecordsApart(t *testing.T) {
	t.Parallel()
	a, b := newOrigin(t).on("/x", answer(200, "from a", "Cache-Control: max-age=60")), newOrigin(t).on("/x", answer(200, "from b", "Cache-Control: max-age=60"))
	p := start(t, conf{
		Extra: "origins:\n  a: { url: " + a.url + " }\n  b: { url: " + b.url + " }\n",
		Rules: "  - { name: a, match: { host: a.example.org }, origin: a }\n  - { name: b, origin: b }",
	})
	for range 2 {
		p.get("/x", "Host: a.example.org").want(t, http.StatusOK, "from a")
		p.get("/x", "Host: b.example.org").want(t, http.StatusOK, "from b")
	}
}
