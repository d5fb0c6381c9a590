package policy

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func span(seconds int64) Span { return Span{D: clampSeconds(seconds), Set: true} }

func TestReadRequestControl(t *testing.T) {
	for name, tt := range map[string]struct {
		fields []string
		want   RequestControl
	}{
		"RFC 9111 §5.2.1.1 max-age":                 {[]string{"Cache-Control: max-age=5"}, RequestControl{MaxAge: span(5)}},
		"RFC 9111 §5.2.1.2 max-stale":               {[]string{"Cache-Control: max-stale=5"}, RequestControl{MaxStale: span(5)}},
		"RFC 9111 §5.2.1.2 max-stale without value": {[]string{"Cache-Control: max-stale"}, RequestControl{MaxStale: Span{Forever, true}}},
		"RFC 9111 §5.2.1.3 min-fresh":               {[]string{"Cache-Control: min-fresh=5"}, RequestControl{MinFresh: span(5)}},
		"RFC 9111 §5.2.1.4 no-cache":                {[]string{"Cache-Control: no-cache"}, RequestControl{NoCache: true}},
		"RFC 9111 §5.2.1.5 no-store":                {[]string{"Cache-Control: no-store"}, RequestControl{NoStore: true}},
		"RFC 9111 §5.2.1.6 no-transform":            {[]string{"Cache-Control: no-transform"}, RequestControl{NoTransform: true}},
		"RFC 9111 §5.2.1.7 only-if-cached":          {[]string{"Cache-Control: only-if-cached"}, RequestControl{OnlyIfCached: true}},
		"RFC 5861 §4 stale-if-error":                {[]string{"Cache-Control: stale-if-error=60"}, RequestControl{StaleIfError: span(60)}},
		"RFC 9111 §5.2 names in any case":           {[]string{"Cache-Control: No-CACHE, MAX-Age=1"}, RequestControl{NoCache: true, MaxAge: span(1)}},
		"RFC 9111 §5.2 quoted argument":             {[]string{`Cache-Control: max-age="7"`}, RequestControl{MaxAge: span(7)}},
		"RFC 9110 §5.3 several lines":               {[]string{"Cache-Control: max-age=9", "Cache-Control: no-cache"}, RequestControl{NoCache: true, MaxAge: span(9)}},
		"the stricter of two values counts": {
			[]string{"Cache-Control: max-age=9, max-age=3, min-fresh=1, min-fresh=4, max-stale, max-stale=2"},
			RequestControl{MaxAge: span(3), MinFresh: span(4), MaxStale: span(2)},
		},
		"what cannot be read is ignored": {
			[]string{"Cache-Control: max-age=-1, min-fresh=a, max-stale=1.5, ;, x y, =, max-age"},
			RequestControl{},
		},
		"directives inside a quoted string are text": {[]string{`Cache-Control: ext="a, no-cache", x`}, RequestControl{}},
		"RFC 9111 §5.4 Pragma alone":                 {[]string{"Pragma: x, No-Cache"}, RequestControl{NoCache: true}},
		"RFC 9111 §5.4 Cache-Control hides Pragma":   {[]string{"Pragma: no-cache", "Cache-Control: x"}, RequestControl{}},
		"RFC 9111 §5.4 other Pragma":                 {[]string{"Pragma: extension"}, RequestControl{}},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(tt.fields...)
			if diff := cmp.Diff(tt.want, ReadRequest(r, HonourDirectives).Control); diff != "" {
				t.Errorf("control (-want +got):\n%s", diff)
			}
			if got := ReadRequest(r, IgnoreDirectives).Control; got != (RequestControl{}) {
				t.Errorf("ignored directives were read: %+v", got)
			}
		})
	}
}

func TestReadRequest(t *testing.T) {
	for name, tt := range map[string]struct {
		head string
		want Request
	}{
		"plain":                      {"GET / HTTP/1.1\nHost: a", Request{Method: "GET"}},
		"authorization":              {"GET / HTTP/1.1\nHost: a\nAuthorization: x", Request{Method: "GET", Authorization: true}},
		"empty authorization counts": {"GET / HTTP/1.1\nHost: a\nAuthorization:", Request{Method: "GET", Authorization: true}},
		"cookie":                     {"GET / HTTP/1.1\nHost: a\nCookie: x=y", Request{Method: "GET", Cookie: true}},
		"range":                      {"GET / HTTP/1.1\nHost: a\nRange: bytes=0-1", Request{Method: "GET", Range: true}},
		"condition":                  {"GET / HTTP/1.1\nHost: a\nIf-Unmodified-Since: x", Request{Method: "GET", Conditional: true}},
		"upgrade":                    {"GET / HTTP/1.1\nHost: a\nConnection: upgrade\nUpgrade: websocket", Request{Method: "GET", Upgrade: true}},
		"content by length":          {"GET / HTTP/1.1\nHost: a\nContent-Length: 1\n\nx", Request{Method: "GET", HasBody: true}},
		"content in chunks":          {"GET / HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n0", Request{Method: "GET", HasBody: true}},
		"content of 0 bytes":         {"GET / HTTP/1.1\nHost: a\nContent-Length: 0", Request{Method: "GET"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, ReadRequest(received(t, tt.head), HonourDirectives)); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPass(t *testing.T) {
	for name, tt := range map[string]struct {
		req  Request
		s    *Settings
		want Reason
	}{
		"GET":                              {Request{Method: "GET"}, nil, 0},
		"HEAD":                             {Request{Method: "HEAD"}, nil, 0},
		"RFC 9110 §9.2.3 POST":             {Request{Method: "POST"}, nil, ReasonMethod},
		"methods are case-sensitive":       {Request{Method: "get"}, nil, ReasonMethod},
		"RFC 9110 §9.3.1 GET with content": {Request{Method: "GET", HasBody: true}, nil, ReasonBody},
		"RFC 9110 §7.8 upgrade":            {Request{Method: "GET", Upgrade: true}, nil, ReasonUpgrade},
		"RFC 9111 §5.2.1.5 no-store":       {Request{Method: "GET", Control: RequestControl{NoStore: true}}, nil, ReasonRequestNoStore},
		"no-store under ignored directives": {
			Request{Method: "GET", Control: RequestControl{NoStore: true}},
			&Settings{Directives: IgnoreDirectives}, 0,
		},
		"range and conditions are the cache's": {Request{Method: "GET", Range: true, Conditional: true}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got, pass := Pass(&tt.req, tt.s); got != tt.want || pass != (tt.want != 0) {
				t.Errorf("Pass = %q, %v; want %q", got, pass, tt.want)
			}
		})
	}
}

func TestReadRequestDoesNotAllocate(t *testing.T) {
	for _, r := range []*http.Request{
		request("Accept: */*", "Cookie: a=b", "If-None-Match: \"x\""),
		request("Cache-Control: max-age=0, no-cache", "Pragma: no-cache"),
		request("Pragma: no-cache"),
	} {
		var sink Request
		if n := testing.AllocsPerRun(100, func() { sink = ReadRequest(r, HonourDirectives) }); n != 0 {
			t.Errorf("%v: %v allocations", r.Header, n)
		}
		_ = sink
	}
}

func TestReasonsHaveWords(t *testing.T) {
	seen := map[string]Reason{}
	for _, r := range Reasons() {
		word := r.String()
		if word == "" || word == "unknown" || !isSFToken(word) || word != strings.ToLower(word) {
			t.Errorf("reason %d has the word %q", r, word)
		}
		if other, ok := seen[word]; ok {
			t.Errorf("reasons %d and %d share %q", r, other, word)
		}
		seen[word] = r
	}
	if Reason(0).String() != "" || reasonCount.String() != "unknown" {
		t.Error("values that are no reason have a word")
	}
}
