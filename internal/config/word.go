package config

import (
	"fmt"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/swrproxy/swrproxy/policy"
)

// LogLevel is the least severity that is logged.
type LogLevel string

func (l *LogLevel) parse(text string) error {
	return parseEnum(l, text, []string{"debug", "info", "warn", "error"})
}
func (l *LogLevel) text() string { return string(*l) }

// LogFormat is json or console.
type LogFormat string

func (f *LogFormat) parse(text string) error {
	return parseEnum(f, text, []string{"json", "console"})
}
func (f *LogFormat) text() string { return string(*f) }

// Access says whether requests are logged: "true", "false" or "sample".
type Access string

func (a *Access) parse(text string) error {
	return parseEnum(a, text, []string{"true", "false", "sample"})
}
func (a *Access) text() string { return string(*a) }

// Keeper says who grants leases on keys.
type Keeper string

// The keepers.
const (
	KeeperMemory Keeper = "memory"
	KeeperFile   Keeper = "file"
)

func (k *Keeper) parse(text string) error {
	return parseEnum(k, text, []string{string(KeeperMemory), string(KeeperFile)})
}
func (k *Keeper) text() string { return string(*k) }

// OriginHost is what an origin is sent as Host: HostPreserve, HostOfOrigin, or a fixed name.
type OriginHost string

// The two special values of OriginHost.
const (
	HostPreserve OriginHost = "preserve"
	HostOfOrigin OriginHost = "origin"
)

func (h *OriginHost) parse(text string) error {
	if text == "" || !httpguts.ValidHostHeader(text) || strings.ContainsAny(text, "/@ ") {
		return wrong(fmt.Sprintf("%q is not a host", text), "write preserve (the client's), origin (the URL's), or a host name")
	}
	*h = OriginHost(text)
	return nil
}
func (h *OriginHost) text() string { return string(*h) }

// SetCookie says what becomes of responses with Set-Cookie.
type SetCookie string

func (s *SetCookie) parse(text string) error {
	return parseEnum(s, text, []string{"refuse", "strip", "keep"})
}
func (s *SetCookie) text() string { return string(*s) }

func (s SetCookie) policy() policy.SetCookie {
	switch s {
	case "strip":
		return policy.StripSetCookie
	case "keep":
		return policy.KeepSetCookie
	default:
		return policy.RefuseSetCookie
	}
}

// RequestDirectives says whether clients' Cache-Control counts.
type RequestDirectives string

func (d *RequestDirectives) parse(text string) error {
	return parseEnum(d, text, []string{"honour", "ignore"})
}
func (d *RequestDirectives) text() string { return string(*d) }

func (d RequestDirectives) policy() policy.Directives {
	if d == "ignore" {
		return policy.IgnoreDirectives
	}
	return policy.HonourDirectives
}

// FieldName is a header field name in any case.
type FieldName string

func (f *FieldName) parse(text string) error {
	if !httpguts.ValidHeaderFieldName(text) {
		return wrong(fmt.Sprintf("%q is not a field name", text), "write a name such as Accept-Language, without colon or blanks")
	}
	*f = FieldName(text)
	return nil
}
func (f *FieldName) text() string { return string(*f) }

// Token is a name in HTTP's sense, such as a cookie's.
type Token string

func (t *Token) parse(text string) error {
	if !httpguts.ValidHeaderFieldName(text) {
		return wrong(fmt.Sprintf("%q is not a cookie name", text), "write a name such as session, without = or blanks")
	}
	*t = Token(text)
	return nil
}
func (t *Token) text() string { return string(*t) }

// Method is a request method.
type Method string

func (m *Method) parse(text string) error {
	upper := strings.ToUpper(text)
	switch {
	case !httpguts.ValidHeaderFieldName(text):
		return wrong(fmt.Sprintf("%q is not a method", text), "write a method such as GET")
	case text != upper:
		return wrong(fmt.Sprintf("method %q is not in capitals, and methods are case-sensitive", text), "write "+upper)
	}
	*m = Method(text)
	return nil
}
func (m *Method) text() string { return string(*m) }

// HostGlob is a pattern on the host: example.org, *.example.org.
type HostGlob string

func (g *HostGlob) parse(text string) error {
	if strings.Contains(text, "://") {
		return wrong(fmt.Sprintf("host pattern %q has a scheme", text), "write the host alone, such as *.example.org")
	}
	if _, err := policy.NewMatch(policy.MatchSpec{Hosts: []string{text}}); err != nil {
		return wrong(fmt.Sprintf("%q is not a host pattern", text), "write a host such as example.org or *.example.org")
	}
	*g = HostGlob(strings.ToLower(text))
	return nil
}
func (g *HostGlob) text() string { return string(*g) }

// PathGlob is a pattern on the path: /static/*, *.css.
type PathGlob string

func (g *PathGlob) parse(text string) error {
	if strings.Contains(text, "?") {
		return wrong(fmt.Sprintf("path pattern %q has a query", text), "match on the path alone; key.query says which parameters count")
	}
	if _, err := policy.NewMatch(policy.MatchSpec{Paths: []string{text}}); err != nil {
		return wrong(fmt.Sprintf("%q is not a path pattern", text), "begin it with / or *, such as /static/* or *.css")
	}
	*g = PathGlob(text)
	return nil
}
func (g *PathGlob) text() string { return string(*g) }

// ParamGlob is a pattern on a query parameter's name: utm_*.
type ParamGlob string

func (g *ParamGlob) parse(text string) error {
	spec := policy.KeySpec{Query: policy.QuerySpec{Ignore: []string{text}}}
	if _, err := policy.NewKey(spec); err != nil {
		return wrong(fmt.Sprintf("%q is not a parameter pattern", text), "write a parameter's name, such as utm_*, without = or &")
	}
	*g = ParamGlob(text)
	return nil
}
func (g *ParamGlob) text() string { return string(*g) }
