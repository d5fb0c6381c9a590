package policy

import (
	"net/http"
	"strings"
)

// RequestControl is what a request's cache directives say (RFC 9111 §5.2.1). The zero value says nothing.
type RequestControl struct {
	// NoCache asks for validation before a stored response is used (§5.2.1.4).
	NoCache bool
	// NoStore asks not to store the request or its response (§5.2.1.5).
	NoStore bool
	// OnlyIfCached asks for a stored response or a 504 (§5.2.1.7).
	OnlyIfCached bool
	// NoTransform asks not to transform content (§5.2.1.6).
	NoTransform bool
	// MaxAge is the largest age that the client accepts (§5.2.1.1).
	MaxAge Span
	// MinFresh is how long the response should stay fresh (§5.2.1.3).
	MinFresh Span
	// MaxStale is how long past its lifetime the client accepts a response; without a value it is Forever (§5.2.1.2).
	MaxStale Span
	// StaleIfError is how long past its lifetime the client accepts a response when the origin fails (RFC 5861 §4).
	StaleIfError Span
}

// Request is what of a request matters to a cache's judgement. It holds no reference to the request.
type Request struct {
	// Method is the request method, as it was sent.
	Method string
	// Control is its Cache-Control, or Pragma: no-cache when there is no Cache-Control (RFC 9111 §5.4).
	Control RequestControl
	// Authorization reports an Authorization field (RFC 9111 §3.5).
	Authorization bool
	// Cookie reports a Cookie field.
	Cookie bool
	// HasBody reports content.
	HasBody bool
	// Conditional reports If-None-Match, If-Modified-Since, If-Match or If-Unmodified-Since.
	Conditional bool
	// Range reports a Range field in a GET; other methods have no use for it (RFC 9110 §14.2).
	Range bool
	// Upgrade reports an Upgrade field: the connection may change its protocol (RFC 9110 §7.8).
	Upgrade bool
}

// ReadRequest reads what matters of r. It does not allocate unless a directive's argument is a quoted string with
// escapes. With IgnoreDirectives, Control is zero.
func ReadRequest(r *http.Request, d Directives) Request {
	h := r.Header
	req := Request{
		Method:        r.Method,
		Authorization: len(h["Authorization"]) > 0,
		Cookie:        len(h["Cookie"]) > 0,
		HasBody:       hasBody(r),
		Conditional: len(h["If-None-Match"]) > 0 || len(h["If-Modified-Since"]) > 0 ||
			len(h["If-Match"]) > 0 || len(h["If-Unmodified-Since"]) > 0,
		Range:   len(h["Range"]) > 0 && (r.Method == http.MethodGet || r.Method == ""),
		Upgrade: len(h["Upgrade"]) > 0,
	}
	if req.Method == "" {
		req.Method = http.MethodGet
	}
	if d == HonourDirectives {
		req.Control = readRequestControl(h)
	}
	return req
}

// hasBody reports content, known to be there or not known to be absent. Field values win over http.NoBody, which a
// server sets for an explicit Content-Length: 0 too.
func hasBody(r *http.Request) bool {
	if r.ContentLength > 0 || len(r.TransferEncoding) > 0 {
		return true
	}
	return r.ContentLength < 0 && r.Body != nil && r.Body != http.NoBody
}

// readRequestControl reads Cache-Control, or Pragma when there is none (RFC 9111 §5.2.1, §5.4).
func readRequestControl(h http.Header) (c RequestControl) {
	if lines := h["Cache-Control"]; len(lines) > 0 {
		for _, line := range lines {
			for line != "" {
				var m string
				m, line = nextMember(line)
				c.directive(m)
			}
		}
		return c
	}
	for _, line := range h["Pragma"] {
		for line != "" {
			var m string
			if m, line = nextMember(line); strings.EqualFold(m, "no-cache") {
				c.NoCache = true
			}
		}
	}
	return c
}

// directive takes one member. What cannot be read is ignored: request directives are advice (RFC 9111 §5.2.1).
func (c *RequestControl) directive(m string) {
	name, value, has, ok := cutDirective(m)
	if !ok {
		return
	}
	switch {
	case strings.EqualFold(name, "no-cache"):
		c.NoCache = true
	case strings.EqualFold(name, "no-store"):
		c.NoStore = true
	case strings.EqualFold(name, "only-if-cached"):
		c.OnlyIfCached = true
	case strings.EqualFold(name, "no-transform"):
		c.NoTransform = true
	case strings.EqualFold(name, "max-age"):
		c.MaxAge.lower(value)
	case strings.EqualFold(name, "min-fresh"):
		c.MinFresh.raise(value)
	case strings.EqualFold(name, "max-stale"):
		if !has {
			value = "2147483648"
		}
		c.MaxStale.lower(value)
	case strings.EqualFold(name, "stale-if-error"):
		c.StaleIfError.lower(value)
	}
}

// lower keeps the smallest of repeated values, raise the largest: of two wishes the stricter one counts (RFC 9111
// §4.2.1).
func (s *Span) lower(value string) {
	if d, ok := parseDelta(value); ok {
		narrow(s, d)
	}
}

func (s *Span) raise(value string) {
	if d, ok := parseDelta(value); ok && (!s.Set || d > s.D) {
		*s = Span{D: d, Set: true}
	}
}

// Pass reports a request that never touches the cache: it is forwarded, and its response is not stored. The reason
// says why.
//
//   - upgrade: the connection may become something else than HTTP (RFC 9110 §7.8)
//   - method: only GET and HEAD are answered from storage (RFC 9110 §9.2.3); a POST may still be stored, see Settings.StorePOST
//   - body: content in a GET or HEAD has no defined meaning, and an origin may use it (RFC 9110 §9.3.1)
//   - request-no-store: the client asks for it (RFC 9111 §5.2.1.5)
func Pass(req *Request, s *Settings) (Reason, bool) {
	switch {
	case req.Upgrade:
		return ReasonUpgrade, true
	case req.Method != http.MethodGet && req.Method != http.MethodHead:
		return ReasonMethod, true
	case req.HasBody:
		return ReasonBody, true
	case req.Control.NoStore && (s == nil || s.Directives == HonourDirectives):
		return ReasonRequestNoStore, true
	}
	return 0, false
}
