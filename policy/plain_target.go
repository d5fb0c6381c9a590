package policy

import (
	"net/http"
	"strings"
)

// SetPlain makes t what [NewTarget] gives for a GET or HEAD in origin form whose octets all stand for themselves (RFC 3986 §3.3, §3.4): no
// escapes, no fragment, nothing outside of US-ASCII. False means that the target is not its own normal form, or has none; t is then as it was.
func (t *Target) SetPlain(method, scheme, host, path, query string) bool {
	if host == "" || strings.Contains(path, "/.") || method == http.MethodConnect {
		return false
	}
	authority := host
	if !isPlainAuthority(host, scheme) {
		var err error
		if authority, err = normalAuthority(host, scheme); err != nil {
			return false
		}
	}
	t.Method, t.Scheme, t.Authority, t.Path, t.RawQuery = method, scheme, authority, path, query
	return true
}

// isPlainAuthority reports a name or IPv4 address in lower case, without a port or with one that is not the scheme's default.
func isPlainAuthority(host, scheme string) bool {
	for i := range len(host) {
		if c := host[i]; !plainHostChar[c] {
			return c == ':' && i > 0 && isPlainPort(host[i+1:], scheme)
		}
	}
	return true
}

func isPlainPort(port, scheme string) bool {
	switch {
	case port == "", port[0] == '0', len(port) > len("65535"), len(port) == len("65535") && port > "65535":
		return false
	case scheme == "http" && port == "80", scheme == "https" && port == "443":
		return false
	}
	for i := range len(port) {
		if port[i]-'0' > 9 {
			return false
		}
	}
	return true
}

var plainHostChar = charset("abcdefghijklmnopqrstuvwxyz0123456789.-")
