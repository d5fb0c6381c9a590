package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// serveHTTP decides who may ask and passes the request on.
func (a *Admin) serveHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if status, why := a.refuse(r); status != 0 {
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Bearer realm="swrproxy"`)
		}
		WriteError(w, status, why)
		return
	}
	if h, pattern := a.open.Handler(r); pattern != "" {
		h.ServeHTTP(w, r)
		return
	}
	a.mux.ServeHTTP(w, r)
}

// refuse returns the status and reason for a request that may not be answered, 0 for others. A token says who asks, wherever the
// request was made up; without one only the request's own marks tell a tool from a page in a browser.
func (a *Admin) refuse(r *http.Request) (status int, why string) {
	if a.o.Token != "" {
		if _, pattern := a.open.Handler(r); pattern == "" && !hasToken(r, a.o.Token) {
			return http.StatusUnauthorized, "token missing or wrong"
		}
		return 0, ""
	}
	switch {
	case !isLoopback(r.Host):
		return http.StatusForbidden, "Host is not a loopback name"
	case crossSite(r):
		return http.StatusForbidden, "cross-site request"
	}
	return 0, ""
}

// hasToken compares digests, so that the time taken tells neither content nor length.
func hasToken(r *http.Request, token string) bool {
	scheme, shown, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got, want := sha256.Sum256([]byte(strings.TrimSpace(shown))), sha256.Sum256([]byte(token))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// crossSite tells whether a browser made the request for a page of another site.
func crossSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
	default:
		return true
	}
	for _, origin := range r.Header.Values("Origin") {
		if u, err := url.Parse(origin); err != nil || !strings.EqualFold(u.Host, r.Host) {
			return true
		}
	}
	return false
}

// isLoopback tells whether host, with or without a port, can only mean this machine.
func isLoopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.Unmap().IsLoopback()
}
