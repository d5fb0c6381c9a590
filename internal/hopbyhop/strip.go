package hopbyhop

import (
	"net/http"
	"net/textproto"
	"strings"
)

// fixed are the fields that concern one connection whether or not a Connection field names them. Proxy-Connection and
// Keep-Alive are no standard but still sent; HTTP2-Settings (RFC 9113 §3.1, obsolete) belongs to the h2c upgrade.
var fixed = [...]string{
	"Connection", "Http2-Settings", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authentication-Info", "Proxy-Authorization",
	"Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// Strip removes from h the connection-specific fields of RFC 9110 §7.6.1: those that any Connection line names, empty
// lines included, except the [Protected] ones, and the ones that are always connection-specific, see [Is].
// It changes the map in place, never a value slice, and does not allocate for canonical input.
func Strip(h http.Header) {
	DeleteListed(h, h["Connection"])
	for _, name := range &fixed {
		delete(h, name)
	}
}

// Is reports whether the field with this canonical name is always connection-specific. For a copy that leaves them
// out; the names that a Connection field lists come on top, see [DeleteListed].
func Is(name string) bool {
	switch name {
	case "Connection", "Http2-Settings", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authentication-Info", "Proxy-Authorization",
		"Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// DeleteListed removes from h every field that the given Connection lines name, except the [Protected] ones.
// Names are matched without regard to case.
func DeleteListed(h http.Header, connection []string) {
	for _, line := range connection {
		for rest := line; rest != ""; {
			var option string
			option, rest, _ = strings.Cut(rest, ",")
			deleteOption(h, strings.Trim(option, " \t"))
		}
	}
}

// deleteOption skips the two options that nearly every Connection field consists of: they name no field.
func deleteOption(h http.Header, option string) {
	switch option {
	case "", "close", "keep-alive":
		return
	}
	if name := textproto.CanonicalMIMEHeaderKey(option); !Protected(name) {
		delete(h, name)
	}
}
