package origin

import (
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// appendHead writes the request's head as net/http would: Host and User-Agent first, the others sorted. False means that something in it
// is for net/http to mend or to refuse.
func (o *outbound) appendHead(b []byte, t *target) (_ []byte, ok bool) {
	method := o.in.Method
	if method == "" {
		method = http.MethodGet
	}
	b = append(append(b, method...), ' ')
	start := len(b)
	b = t.appendTarget(b, o.in.URL)
	if o.in.URL.Path == "*" || b[start] != '/' || !visible(b[start:]) {
		return b, false
	}
	host := t.hostFor(o.in)
	if !plainHost(host) {
		return b, false
	}
	b = append(append(append(b, " HTTP/1.1\r\nHost: "...), host...), "\r\n"...)
	var room [usualFields]field
	return appendFields(b, o.pool.fields(room[:0], o.in, o.upgrade))
}

// appendTarget writes the request target in origin-form (RFC 9112 §3.2.1): the URL's base path, then the request's path and query.
func (t *target) appendTarget(b []byte, in *url.URL) []byte {
	start := len(b)
	b = append(append(b, t.rawBase...), in.EscapedPath()...)
	if len(b) == start {
		b = append(b, '/')
	}
	if in.ForceQuery || in.RawQuery != "" {
		b = append(append(b, '?'), in.RawQuery...)
	}
	return b
}

// visible reports whether b can stand in a request line: no space, no control character.
func visible(b []byte) bool {
	for _, c := range b {
		if c <= ' ' || c == 0x7f {
			return false
		}
	}
	return true
}

// plainHost reports whether a Host needs none of net/http's conversions (of international names and of zones) and is valid.
func plainHost(host string) bool {
	for i := range len(host) {
		if host[i] >= 0x80 || host[i] == '%' {
			return false
		}
	}
	return host != "" && httpguts.ValidHostHeader(host)
}

// appendFields writes the fields, which it sorts, and the empty line.
func appendFields(b []byte, f fields) (_ []byte, ok bool) {
	if agent := f.get("User-Agent"); len(agent) > 0 && agent[0] != "" {
		if b, ok = appendField(b, "User-Agent", agent[0]); !ok {
			return b, false
		}
	}
	f.sort()
	for i := range f {
		if !httpguts.ValidHeaderFieldName(f[i].name) {
			return b, false
		}
		if ownField(f[i].name) {
			continue
		}
		for _, value := range f[i].lines {
			if b, ok = appendField(b, f[i].name, value); !ok {
				return b, false
			}
		}
	}
	return append(b, "\r\n"...), true
}

// ownField names what net/http writes by itself or, in a request without a body, not at all.
func ownField(name string) bool {
	switch name {
	case "Host", "User-Agent", "Content-Length", "Transfer-Encoding", "Trailer":
		return true
	}
	return false
}

func appendField(b []byte, name, value string) (_ []byte, ok bool) {
	if !httpguts.ValidHeaderFieldValue(value) {
		return b, false
	}
	b = append(append(b, name...), ": "...)
	return append(append(b, strings.Trim(value, " \t")...), "\r\n"...), true
}
