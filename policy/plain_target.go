package policy

import (
	"net/http"
	"strings"
)

// PlainTarget is [NewTarget] for a GET or HEAD in origin form whose octets all stand for themselves (RFC 3986 §3.3, §3.4): no escapes, no
// fragment, nothing outside of US-ASCII. False means that the target is not its own normal form, or has none.
func PlainTarget(method, scheme, host, path, query string) (Target, bool) {
	if host == "" || strings.Contains(path, "/.") || method == http.MethodConnect {
		return Target{}, false
	}
	authority := host
	if !isPlainHost(host) {
		var err error
		if authority, err = normalAuthority(host, scheme); err != nil {
			return Target{}, false
		}
	}
	return Target{Method: method, Scheme: scheme, Authority: authority, Path: path, RawQuery: query}, true
}

// isPlainHost reports a name or IPv4 address in lower case, without a port.
func isPlainHost(host string) bool {
	for i := range len(host) {
		c := host[i]
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '.' || c == '-') {
			return false
		}
	}
	return true
}
