package policy

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Target is the effective request URI in its normal form (RFC 9110 §7.1, RFC 9112 §3.3). It is made once; the same
// bytes are matched against rules, keyed and forwarded, so that the three can never disagree. Immutable by
// convention; copies are independent.
type Target struct {
	// Method is the request method as sent.
	Method string
	// Scheme is "http" or "https", lower case.
	Scheme string
	// Authority is the host and, unless it is the scheme's default, ":port"; lower case. Empty only for HTTP/1.0
	// without Host.
	Authority string
	// Path is the escaped path after RFC 3986 §6.2.2: hexadecimal digits in upper case, unreserved characters
	// decoded, dot segments removed, %2F kept. "*" for OPTIONS *; never empty.
	Path string
	// RawQuery is the query as sent, without "?".
	RawQuery string
}

// BadTarget is a request target that has no normal form; the answer is 400.
type BadTarget struct {
	// Part is "method", "scheme", "authority", "path" or "query".
	Part string
	// Value is what was sent.
	Value string
	// Why says what is wrong with it.
	Why string
}

// Error says which part is bad and why.
func (e *BadTarget) Error() string {
	return fmt.Sprintf("policy: bad request target: %s %q: %s", e.Part, e.Value, e.Why)
}

// NewTarget returns the normal form of r's target on a connection of the given scheme. An absolute-form target wins
// over the Host field (RFC 9112 §3.2.2, §3.3); its scheme must be the connection's, it must name a host (RFC 9110
// §4.2.1) and no user (§4.2.4). net/http has already put the winner into r.Host. For requests of a client r.Host is the Host field that goes out, which is what the
// origin tells sites apart by. It does not allocate when everything is normal already. The error is always a
// *BadTarget.
func NewTarget(r *http.Request, scheme string) (Target, error) {
	if r.Method == http.MethodConnect {
		return Target{}, &BadTarget{"method", r.Method, "this is not a tunnel"}
	}
	if err := checkAbsolute(r, scheme); err != nil {
		return Target{}, err
	}
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	return newTarget(r.Method, scheme, host, rawPath(r), r.URL.RawQuery, r.RequestURI)
}

// checkAbsolute refuses absolute-form targets that mean something else than what this server answers for.
func checkAbsolute(r *http.Request, scheme string) error {
	u := r.URL
	if u.Scheme == "" || strings.HasPrefix(r.RequestURI, "/") {
		return nil
	}
	switch {
	case r.RequestURI == "":
		return nil // a client's request
	case !strings.EqualFold(u.Scheme, scheme):
		return &BadTarget{"scheme", u.Scheme, "this connection is for " + scheme}
	case u.Host == "":
		return &BadTarget{"authority", r.RequestURI, "a target of this scheme names a host"}
	case u.User != nil:
		return &BadTarget{"authority", u.Host, "a target names no user"}
	}
	return nil
}

func newTarget(method, scheme, host, path, query, sent string) (Target, error) {
	authority, err := normalAuthority(host, scheme)
	if err != nil {
		return Target{}, err
	}
	if strings.IndexByte(sent, '#') >= 0 {
		return Target{}, &BadTarget{"path", sent, "a request target has no fragment"}
	}
	if path, err = normalPath(path, method); err != nil {
		return Target{}, err
	}
	if i := strings.IndexFunc(query, isCTLOrSpace); i >= 0 {
		return Target{}, &BadTarget{"query", query, "control character or space"}
	}
	if method == "" {
		method = http.MethodGet
	}
	return Target{Method: method, Scheme: scheme, Authority: authority, Path: path, RawQuery: query}, nil
}

// rawPath returns the path in the form it was sent in, without allocation where it can. net/url keeps it only when it
// differs from its own way of escaping; then the request line, if it still says the same, spares the escaping.
func rawPath(r *http.Request) string {
	u := r.URL
	if u.RawPath != "" && decodesTo(u.RawPath, u.Path) {
		return u.RawPath
	}
	if !needsEscape(u.Path) {
		return u.Path
	}
	if line, _, _ := strings.Cut(r.RequestURI, "?"); decodesTo(line, u.Path) {
		return line
	}
	return u.EscapedPath()
}

// needsEscape reports a decoded path that is not its own escaped form.
func needsEscape(path string) bool {
	for i := range len(path) {
		if !pathChar[path[i]] {
			return true
		}
	}
	return false
}

// decodesTo reports whether raw, percent-decoded, is path. It does not allocate.
func decodesTo(raw, path string) bool {
	j := 0
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if c == '%' {
			var ok bool
			if c, ok = percentOctet(raw[i:]); !ok {
				return false
			}
			i += 2
		}
		if j >= len(path) || path[j] != c {
			return false
		}
		j++
	}
	return j == len(path)
}

// percentOctet decodes the percent-encoded octet at the start of s (RFC 3986 §2.1).
func percentOctet(s string) (byte, bool) {
	if len(s) < 3 {
		return 0, false
	}
	hi, lo := hexValue[s[1]], hexValue[s[2]]
	return (hi-1)<<4 | (lo - 1), hi > 0 && lo > 0
}

var (
	unreserved = charset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
	// pathChar are the octets that stand for themselves in a path: pchar and "/" (RFC 3986 §3.3).
	pathChar = charset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,;=:@/")
	// hexValue is one more than the value of a hexadecimal digit, 0 for other octets.
	hexValue = hexDigits()
)

func hexDigits() (v [256]byte) {
	for i, c := range "0123456789abcdef" {
		v[c] = byte(i) + 1
		v[strings.ToUpper(string(c))[0]] = byte(i) + 1
	}
	return v
}

func isCTLOrSpace(r rune) bool { return r <= ' ' || r == 0x7f }

// normalPath applies RFC 3986 §6.2.2 to an escaped path.
func normalPath(path, method string) (string, error) {
	switch {
	case path == "":
		return "/", nil
	case path == "*" && method == http.MethodOptions:
		return path, nil
	case path[0] != '/':
		return "", &BadTarget{"path", path, "does not begin with /"}
	}
	if isNormalPath(path) {
		return path, nil
	}
	escaped, err := normalEscapes(path)
	if err != nil {
		return "", err
	}
	return removeDots(escaped), nil
}

// isNormalPath reports a path that normalisation would not change.
func isNormalPath(path string) bool {
	for i := 0; i < len(path); i++ {
		switch c := path[i]; {
		case c == '/':
			if isDotSegment(path[i+1:]) {
				return false
			}
		case c == '%':
			octet, ok := percentOctet(path[i:])
			if !ok || unreserved[octet] || path[i+1] >= 'a' || path[i+2] >= 'a' {
				return false
			}
			i += 2
		case !pathChar[c]:
			return false
		}
	}
	return true
}

// isDotSegment reports that s begins with a whole segment "." or "..".
func isDotSegment(s string) bool {
	for n := 1; n <= 2; n++ {
		if len(s) >= n && s[n-1] == '.' && (len(s) == n || s[n] == '/') {
			return true
		}
		if len(s) < n || s[n-1] != '.' {
			return false
		}
	}
	return false
}

// normalEscapes decodes what needs no escape, escapes what does, and writes digits in upper case. An encoded slash
// stays encoded.
func normalEscapes(path string) (string, error) {
	var b strings.Builder
	b.Grow(len(path) + 8)
	for i := 0; i < len(path); i++ {
		c := path[i]
		if c == '%' {
			octet, ok := percentOctet(path[i:])
			if !ok {
				return "", &BadTarget{"path", path, "malformed percent-encoding"}
			}
			i += 2
			if unreserved[octet] {
				b.WriteByte(octet)
			} else {
				writeEscape(&b, octet)
			}
			continue
		}
		switch {
		case pathChar[c]:
			b.WriteByte(c)
		case isCTLOrSpace(rune(c)):
			return "", &BadTarget{"path", path, "control character or space"}
		default:
			writeEscape(&b, c)
		}
	}
	return b.String(), nil
}

func writeEscape(b *strings.Builder, c byte) {
	const digits = "0123456789ABCDEF"
	b.WriteByte('%')
	b.WriteByte(digits[c>>4])
	b.WriteByte(digits[c&15])
}

// removeDots removes dot segments (RFC 3986 §5.2.4). Empty segments count as segments and stay.
func removeDots(path string) string {
	var out []string
	segments := strings.Split(path[1:], "/")
	for i, s := range segments {
		last := i == len(segments)-1
		switch s {
		case ".", "..":
			if s == ".." && len(out) > 0 {
				out = out[:len(out)-1]
			}
			if last {
				out = append(out, "")
			}
		default:
			out = append(out, s)
		}
	}
	return "/" + strings.Join(out, "/")
}

// hostChar are the octets of a host that is kept as it is: names, IPv4 and the inside of IPv6 literals.
// Percent-encoding, user information and sub-delimiters have no place in the authority of an http URI that a server
// serves (RFC 9110 §4.2).
var hostChar = charset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")

// normalAuthority lower-cases a host and drops the scheme's default port (RFC 9110 §4.2.3).
func normalAuthority(host, scheme string) (string, error) {
	if host == "" {
		return "", nil
	}
	name, port, ok := splitPort(host)
	if !ok || !isHost(name) {
		return "", &BadTarget{"authority", host, "not a host and port"}
	}
	digits := strings.TrimLeft(port, "0")
	if port != "" && (digits == "" || len(digits) > 5 || digits > "65535" && len(digits) == 5) {
		return "", &BadTarget{"authority", host, "no such port"}
	}
	name = strings.ToLower(name)
	switch {
	case digits == "" || scheme == "http" && digits == "80" || scheme == "https" && digits == "443":
		return name, nil
	case len(name)+1+len(digits) == len(host) && strings.HasPrefix(host, name):
		return host, nil
	}
	return name + ":" + digits, nil
}

// splitPort cuts "host:port" or "[v6]:port"; ok is false when the port is not digits.
func splitPort(host string) (name, port string, ok bool) {
	i := strings.LastIndexByte(host, ':')
	if i < 0 || strings.IndexByte(host[i:], ']') >= 0 {
		return host, "", true
	}
	for j := i + 1; j < len(host); j++ {
		if host[j] < '0' || host[j] > '9' {
			return "", "", false
		}
	}
	return host[:i], host[i+1:], true
}

func isHost(name string) bool {
	v6 := strings.HasPrefix(name, "[")
	if v6 {
		if len(name) < 4 || name[len(name)-1] != ']' {
			return false
		}
		name = name[1 : len(name)-1]
	}
	for i := range len(name) {
		if !hostChar[name[i]] && !(v6 && name[i] == ':') {
			return false
		}
	}
	return name != ""
}

// URL returns the target as a URL whose EscapedPath is t.Path.
func (t Target) URL() *url.URL {
	u := &url.URL{Scheme: t.Scheme, Host: t.Authority, Path: t.Path, RawQuery: t.RawQuery}
	if path, err := url.PathUnescape(t.Path); err == nil {
		u.Path = path
	}
	if u.EscapedPath() != t.Path {
		u.RawPath = t.Path
	}
	return u
}

// Host is the authority without port.
func (t *Target) Host() string {
	name, _, _ := splitPort(t.Authority)
	return name
}

// resolve returns the normal form of a reference in a response to t, if it has the same scheme and authority (RFC
// 9110 §4.3.1).
func (t *Target) resolve(ref string) (Target, bool) {
	u, err := url.Parse(ref)
	if err != nil || strings.IndexFunc(ref, isCTLOrSpace) >= 0 {
		return Target{}, false
	}
	u = t.URL().ResolveReference(u)
	if u.Opaque != "" || u.User != nil || !strings.EqualFold(u.Scheme, t.Scheme) {
		return Target{}, false
	}
	other, err := newTarget(http.MethodGet, t.Scheme, u.Host, u.EscapedPath(), u.RawQuery, "")
	return other, err == nil && other.Authority == t.Authority
}
