package hopbyhop

import "strings"

// Protected reports whether the field with this canonical name is meant for every recipient along the way, so that no
// Connection field may remove it: what decides authority, framing, identity, caching, conditions or negotiation, and
// what proxies add for the next hop.
func Protected(name string) bool {
	switch name {
	case "Host", "Authorization", "Cookie", "Set-Cookie", "Origin", "Date", "Expect", "Max-Forwards", "Range", "Location",
		"Age", "Cache-Control", "Cache-Status", "Expires", "Pragma", "Vary", "Warning", "Surrogate-Control", "Surrogate-Key", "Cache-Tag",
		"Etag", "Last-Modified", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range",
		"User-Agent", "Referer", "Via", "Forwarded", "X-Real-Ip", "X-Request-Id":
		return true
	}
	return protectedFamily(name)
}

// protectedFamily covers the names that come in families: representation metadata, negotiation, targeted cache
// control (RFC 9213), what proxies add, and browsers' request metadata.
func protectedFamily(name string) bool {
	for _, prefix := range [...]string{"Accept", "Access-Control-", "Content-", "X-Forwarded-", "Cache-Group", "Sec-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return strings.HasSuffix(name, "-Cache-Control")
}
