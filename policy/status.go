package policy

import "net/http"

// cacheableByDefault reports the statuses that heuristic freshness may be used with (RFC 9110 §15.1, RFC 9111
// §4.2.2).
func cacheableByDefault(status int) bool {
	switch status {
	case http.StatusOK, http.StatusNonAuthoritativeInfo, http.StatusNoContent, http.StatusPartialContent,
		http.StatusMultipleChoices, http.StatusMovedPermanently, http.StatusPermanentRedirect,
		http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone, http.StatusRequestURITooLong,
		http.StatusNotImplemented:
		return true
	}
	return false
}

// understood reports the final statuses whose caching this package implements: those of RFC 9110 §15 and the
// registered additions that ask nothing more of a cache. 304 is not among them; it is merged, never stored (RFC 9111
// §4.3.4).
func understood(status int) bool {
	return status >= 200 && status != http.StatusNotModified && status != statusUnused && http.StatusText(status) != ""
}

// statusUnused is 306, which RFC 9110 §15.4.7 reserves.
const statusUnused = 306

// IsError reports the statuses that stale-if-error is for (RFC 5861 §4).
func IsError(status int) bool {
	switch status {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// HasContent tells whether a response of this status to this method may have content: RFC 9110 §6.4.1, RFC 9112 §6.3.
func HasContent(method string, status int) bool {
	return method != http.MethodHead && StatusHasContent(status)
}

// StatusHasContent is HasContent for any method but HEAD: what an answer to HEAD says of its content is up to the status alone.
func StatusHasContent(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}
