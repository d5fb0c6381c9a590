package policy

import (
	"net/http"
	"time"
)

// Condition is what a request's preconditions come to. The zero value is not an outcome.
type Condition uint8

const (
	_ Condition = iota
	// ConditionPass: there are none, or they hold: answer as usual.
	ConditionPass
	// ConditionNotModified: answer 304.
	ConditionNotModified
	// ConditionFailed: answer 412.
	ConditionFailed
)

var conditionNames = [...]string{"", "pass", "not-modified", "failed"}

// String returns "pass", "not-modified" or "failed".
func (c Condition) String() string { return nameOf(conditionNames[:], int(c)) }

// Evaluate judges a request's preconditions against a stored response that would answer it, in the order of RFC 9110
// §13.2.2. They count only if the answer without them would be 2xx. bornAt stands in for a missing Date.
//
// If-Match and If-Unmodified-Since are judged too: RFC 9110 §13.2.1 asks it of a cache that answers, and §13.1.1 and
// §13.1.4 let it ignore them.
func Evaluate(req http.Header, method string, status int, stored http.Header, bornAt time.Time) Condition {
	return evaluate(req, method, status, stored, bornAt, false)
}

// Evaluate is the function Evaluate under the rule's settings (UndatedNotModified).
func (s *Settings) Evaluate(req http.Header, method string, status int, stored http.Header, bornAt time.Time) Condition {
	return evaluate(req, method, status, stored, bornAt, s.UndatedNotModified)
}

func evaluate(req http.Header, method string, status int, stored http.Header, bornAt time.Time, undated bool) Condition {
	if status < 200 || status > 299 {
		return ConditionPass
	}
	if c := preconditionFailed(req, stored); c {
		return ConditionFailed
	}
	read := method == http.MethodGet || method == http.MethodHead
	if lines := req["If-None-Match"]; len(lines) > 0 {
		switch matched := matchETags(lines, get(stored, "Etag"), false); {
		case !matched:
			return ConditionPass
		case read:
			return ConditionNotModified
		}
		return ConditionFailed
	}
	if read && notModifiedSince(req, stored, bornAt, undated) {
		return ConditionNotModified
	}
	return ConditionPass
}

// preconditionFailed judges If-Match, and without it If-Unmodified-Since (RFC 9110 §13.1.1, §13.1.4).
func preconditionFailed(req, stored http.Header) bool {
	if lines := req["If-Match"]; len(lines) > 0 {
		return !matchETags(lines, get(stored, "Etag"), true)
	}
	since, ok := dateOf(req, "If-Unmodified-Since")
	if !ok {
		return false
	}
	modified, ok := dateOf(stored, "Last-Modified")
	return ok && modified.After(since)
}

// notModifiedSince judges If-Modified-Since: against Last-Modified, else Date, else the time that the response was
// generated (RFC 9111 §4.3.2). A date that cannot be read counts as no condition (RFC 9110 §13.1.3).
func notModifiedSince(req, stored http.Header, bornAt time.Time, undated bool) bool {
	since, ok := dateOf(req, "If-Modified-Since")
	if !ok {
		return false
	}
	modified, ok := dateOf(stored, "Last-Modified")
	if !ok {
		if undated && get(stored, "Etag") == "" {
			return true
		}
		if modified, ok = dateOf(stored, "Date"); !ok {
			modified = bornAt
		}
	}
	return !modified.After(since)
}

// NotModifiedHeader returns the fields of a 304: those that a 200 would have had and that a client may need to update
// what it has, and none that describe content (RFC 9110 §15.4.5). Date, Age and Cache-Status are the caller's. The
// result shares stored's values.
func NotModifiedHeader(stored http.Header) http.Header {
	h := make(http.Header, len(stored))
	etag := get(stored, "Etag")
	for name, lines := range stored {
		if InNotModified(name, etag) {
			h[name] = lines
		}
	}
	return h
}

// InNotModified tells whether a field of a stored response is part of a 304 made from it, given the stored ETag: the
// same choice as [NotModifiedHeader] makes, for those who do not have the fields in a map. The name must be canonical.
// With a strong ETag to go by, Last-Modified is of no use to the client (RFC 9110 §15.4.5).
func InNotModified(name, etag string) bool {
	if name == "Last-Modified" {
		tag, ok := parseETag(etag)
		return !ok || tag.weak
	}
	return !describesContent[name]
}

// describesContent are representation fields that a 304 leaves out; Content-Location stays.
var describesContent = map[string]bool{
	"Content-Length": true, "Content-Encoding": true, "Content-Type": true, "Content-Language": true, "Content-Range": true,
	"Content-Md5": true, "Content-Digest": true, "Repr-Digest": true, "Digest": true, "Content-Disposition": true,
	"Accept-Ranges": true, "Trailer": true, "Transfer-Encoding": true,
}
