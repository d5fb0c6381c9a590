package origin

import (
	"maps"
	"net/http"
	"net/netip"
	"net/textproto"
	"strings"

	"github.com/swrproxy/swrproxy/internal/hopbyhop"
)

// noUserAgent keeps net/http from adding its own User-Agent. Never modified.
var noUserAgent = []string{}

// header makes the header to send as a map.
func (p *Pool) header(req *http.Request, upgrade string) http.Header {
	var room [usualFields]field
	return p.fields(room[:0], req, upgrade).header()
}

// fields appends to f, which is empty, what is sent: the client's fields without what must not pass, then our own, in this order, so that
// nothing the client says removes them.
func (p *Pool) fields(f fields, req *http.Request, upgrade string) fields {
	peer := peerOf(req)
	trusted := p.trusts(peer)
	for name, lines := range withoutListed(req.Header) {
		if !p.drops(name, trusted) {
			f = append(f, field{name, lines}) // shared: neither side changes a value slice
		}
	}
	f = p.addVia(f, req)
	f = addForwarded(f, req, peer)
	f = p.addConnection(f, req, upgrade)
	f = lowerMaxForwards(f, req)
	if f.find("User-Agent") < 0 {
		f = append(f, field{"User-Agent", noUserAgent})
	}
	return f
}

// withoutListed returns h, or a copy, without the fields that Connection lists.
func withoutListed(h http.Header) http.Header {
	if len(h["Connection"]) == 0 {
		return h
	}
	h = maps.Clone(h)
	hopbyhop.DeleteListed(h, h["Connection"])
	return h
}

// drops reports whether a client's field stays behind.
func (p *Pool) drops(name string, trusted bool) bool {
	name = plainName(name)
	return hopbyhop.Is(name) || name == "Host" || (!trusted && isForwarding(name)) || (!p.cfg.KeepOverrideFields && isOverride(name))
}

// plainName returns the canonical name that an origin may take this one for: CGI and its heirs see no difference between
// X_Forwarded_For and X-Forwarded-For, so that the one would get past a rule for the other.
func plainName(name string) string {
	if strings.IndexByte(name, '_') >= 0 {
		name = strings.ReplaceAll(name, "_", "-")
	}
	return textproto.CanonicalMIMEHeaderKey(name)
}

// isForwarding names the fields by which proxies tell origins about the client: only a trusted peer's are believed.
func isForwarding(name string) bool {
	switch name {
	case "Forwarded", "X-Real-Ip":
		return true
	}
	return strings.HasPrefix(name, "X-Forwarded-")
}

// isOverride names the fields that some frameworks let override the request's target, host or method.
func isOverride(name string) bool {
	switch name {
	case "X-Original-Url", "X-Original-Uri", "X-Original-Host", "X-Original-Method", "X-Rewrite-Url", "X-Host",
		"X-Http-Method", "X-Http-Method-Override", "X-Method-Override",
		"X-Forwarded-Scheme", "X-Forwarded-Server", "X-Forwarded-Uri", "X-Forwarded-Path", "X-Http-Host-Override", "X-Http-Destinationurl":
		return true
	}
	return false
}

// peerOf returns the address that the request came from; the zero address if there is none, as on a Unix socket.
func peerOf(req *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(req.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap().WithZone("")
}

func (p *Pool) trusts(peer netip.Addr) bool {
	for _, prefix := range p.cfg.TrustedProxies {
		if prefix.Contains(peer) {
			return true
		}
	}
	return false
}

// addVia appends this proxy to Via (RFC 9110 §7.6.3).
func (p *Pool) addVia(f fields, req *http.Request) fields {
	own := p.via[1]
	switch {
	case req.ProtoMajor >= 2:
		own = p.via[2]
	case req.ProtoMajor == 1 && req.ProtoMinor == 0:
		own = p.via[0]
	}
	return f.with("Via", appended(f.get("Via"), own))
}

// appended returns prior and one more line as one line, or own itself if there is no prior. It modifies neither.
func appended(prior, own []string) []string {
	if len(prior) == 0 {
		return own
	}
	return []string{strings.Join(prior, ", ") + ", " + own[0]}
}

// addForwarded tells the origin about the peer, in RFC 7239's way and in the older ones. What is still in f came from a
// trusted proxy and is extended.
func addForwarded(f fields, req *http.Request, peer netip.Addr) fields {
	proto := "http"
	if req.TLS != nil {
		proto = "https"
	}
	lines := make([]string, 0, 5) // one allocation for all of them
	line := func(v string) []string {
		lines = append(lines, v)
		return lines[len(lines)-1 : len(lines) : len(lines)]
	}
	if peer.IsValid() {
		ip := peerText(req, peer)
		f = f.with("X-Forwarded-For", appended(f.get("X-Forwarded-For"), line(ip)))
		f = keepOrSet(f, "X-Real-Ip", line, ip)
	}
	f = keepOrSet(f, "X-Forwarded-Proto", line, proto)
	if req.Host != "" {
		f = keepOrSet(f, "X-Forwarded-Host", line, req.Host)
	}
	return f.with("Forwarded", appended(f.get("Forwarded"), line(forwardedElement(req, peer, proto))))
}

func keepOrSet(f fields, name string, line func(string) []string, value string) fields {
	if len(f.get(name)) == 0 {
		return f.with(name, line(value))
	}
	return f
}

// peerText is peer.String() without an allocation in the common case.
func peerText(req *http.Request, peer netip.Addr) string {
	if host, _, ok := strings.Cut(req.RemoteAddr, ":"); ok && peer.Is4() && host != "" && host[0] != '[' {
		return host
	}
	return peer.String()
}

// forwardedElement is this hop's element of Forwarded (RFC 7239 §4). Values that are no token are quoted.
func forwardedElement(req *http.Request, peer netip.Addr, proto string) string {
	var b strings.Builder
	b.Grow(len("for=;host=\"\";proto=https") + len(req.RemoteAddr) + len(req.Host) + 4)
	switch {
	case !peer.IsValid():
		b.WriteString("for=unknown")
	case peer.Is4():
		b.WriteString("for=")
		b.WriteString(peerText(req, peer))
	default:
		b.WriteString(`for="[`)
		b.WriteString(peer.String())
		b.WriteString(`]"`)
	}
	if req.Host != "" {
		b.WriteString(`;host="`)
		writeQuoted(&b, req.Host)
		b.WriteByte('"')
	}
	b.WriteString(";proto=")
	b.WriteString(proto)
	return b.String()
}

// writeQuoted writes the inside of a quoted-string (RFC 9110 §5.6.4).
func writeQuoted(b *strings.Builder, s string) {
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
}

// addConnection sets this hop's own connection-specific fields: an upgrade that may pass, and the wish for trailers, which
// net/http can read.
//
// Deviation: RFC 9110 §10.1.4 wants TE named in Connection. HTTP/2 forbids the field, and with https the version is not
// known yet, so it is named for plain HTTP/1.1 origins only.
func (p *Pool) addConnection(f fields, req *http.Request, upgrade string) fields {
	if upgrade != "" {
		f = f.with("Connection", connectionUpgrade).with("Upgrade", []string{upgrade})
	}
	if !hopbyhop.AcceptsTrailers(req.Header) {
		return f
	}
	f = f.with("Te", teTrailers)
	if p.plain && upgrade == "" {
		f = f.with("Connection", connectionTE)
	}
	return f
}

// Lines that are the same in every request. Never modified.
var (
	connectionUpgrade = []string{"Upgrade"}
	connectionTE      = []string{"TE"}
	teTrailers        = []string{"trailers"}
)
