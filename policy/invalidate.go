package policy

import "net/http"

// Invalidates reports whether a response with this status to this method makes stored responses for the target
// invalid (RFC 9111 §4.4): the method is unsafe or unknown, and the status is not an error.
func Invalidates(method string, status int) bool {
	return !isSafe(method) && status >= 200 && status < 400
}

// isSafe reports the methods of RFC 9110 §9.2.1, and those registered as safe beside them.
func isSafe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, "PROPFIND", "REPORT", "SEARCH", "QUERY", "PRI":
		return true
	}
	return false
}

// InvalidatedTargets returns the targets that Location and Content-Location name, if they have t's scheme and
// authority; other origins are nobody's to invalidate from here (RFC 9111 §4.4). t itself is not among them. Their
// Method is GET.
func InvalidatedTargets(t Target, respHeader http.Header) []Target {
	var targets []Target
	for _, name := range [...]string{"Location", "Content-Location"} {
		if len(respHeader[name]) != 1 {
			continue
		}
		other, ok := t.resolve(respHeader[name][0])
		if ok && !sameResource(&other, &t) {
			targets = append(targets, other)
		}
	}
	return targets
}

// AnswersGET reports whether the answer to a POST may be stored for later GETs of its target: its Content-Location
// names the target itself (RFC 9110 §9.3.3). Admit has to accept it too, which asks for explicit freshness and
// Settings.StorePOST.
func AnswersGET(t Target, respHeader http.Header) bool {
	if len(respHeader["Content-Location"]) != 1 {
		return false
	}
	other, ok := t.resolve(respHeader["Content-Location"][0])
	return ok && sameResource(&other, &t)
}

func sameResource(a, b *Target) bool {
	return a.Scheme == b.Scheme && a.Authority == b.Authority && a.Path == b.Path && a.RawQuery == b.RawQuery
}
