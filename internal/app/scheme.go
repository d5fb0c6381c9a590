package app

import (
	"net/http"
	"net/netip"
	"strings"
)

// scheme tells a request's scheme: by its connection, or by the X-Forwarded-Proto of a trusted proxy that ended TLS in front of us. The
// origin sees the same field, so its answer may depend on it, and the key must.
func (a *App) scheme(r *http.Request) string {
	if said := forwardedProto(r); said != "" && trusts(*a.trusted.Load(), r.RemoteAddr) {
		return said
	}
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

// forwardedProto returns the scheme that the client used towards the first proxy, "" if the field says nothing usable.
func forwardedProto(r *http.Request) string {
	lines := r.Header["X-Forwarded-Proto"]
	if len(lines) == 0 {
		return ""
	}
	first, _, _ := strings.Cut(lines[0], ",")
	switch first = strings.TrimSpace(first); {
	case strings.EqualFold(first, "https"):
		return "https"
	case strings.EqualFold(first, "http"):
		return "http"
	default:
		return ""
	}
}

func trusts(trusted []netip.Prefix, remote string) bool {
	peer, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false
	}
	addr := peer.Addr().Unmap().WithZone("")
	for _, p := range trusted {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
