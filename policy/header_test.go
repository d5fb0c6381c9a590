package policy

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"time"
)

// fields builds a header from lines "Name: value", in order; repeated names make several lines.
func fields(lines ...string) http.Header {
	h := http.Header{}
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			panic("no colon in " + line)
		}
		name = http.CanonicalHeaderKey(name)
		h[name] = append(h[name], strings.TrimPrefix(value, " "))
	}
	return h
}

// request builds a GET with the given fields.
func request(lines ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "http://example.org/", nil)
	r.Header = fields(lines...)
	return r
}

// reads is what a cache sees of a GET with the given fields.
func reads(lines ...string) *Request {
	req := ReadRequest(request(lines...), HonourDirectives)
	return &req
}

// t0 is the instant at which the tests' responses arrive. It is a whole second, as dates are.
var t0 = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// date is an HTTP-date d after t0.
func date(d time.Duration) string { return t0.Add(d).Format(http.TimeFormat) }

const sec = time.Second
