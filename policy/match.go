package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// MatchSpec says which requests a rule applies to. Within one list any pattern may match; all lists must. An empty
// list matches everything.
type MatchSpec struct {
	// Hosts are patterns on the host, or on host:port if they name a port: "example.org", "*.example.org", "*".
	Hosts []string
	// Paths are patterns on the normalised path; "*" stands for any run of characters, slashes too: "/static/*",
	// "*.css".
	Paths []string
	// Methods are request methods; they are compared exactly.
	Methods []string
}

// Match is a compiled MatchSpec. Immutable after NewMatch; safe for concurrent use.
type Match struct {
	hosts, paths, methods []string
	cut                   []cutPattern // paths, to match with
}

// ErrBadPattern is returned by NewMatch and NewKey for a pattern that can match nothing.
var ErrBadPattern = errors.New("policy: bad pattern")

// NewMatch compiles a spec. Host patterns are lower-cased; path patterns are normalised like paths, so that a pattern
// and a path that are written differently but mean the same do match.
func NewMatch(spec MatchSpec) (*Match, error) {
	m := &Match{methods: slices.Clone(spec.Methods)}
	for _, p := range spec.Hosts {
		if p == "" || strings.ContainsAny(p, "/@ ") {
			return nil, fmt.Errorf("%w: host %q", ErrBadPattern, p)
		}
		m.hosts = append(m.hosts, strings.ToLower(p))
	}
	for _, p := range spec.Paths {
		normal, err := normalPattern(p)
		if err != nil {
			return nil, err
		}
		m.paths, m.cut = append(m.paths, normal), append(m.cut, cutAtStar(normal))
	}
	for _, p := range spec.Methods {
		if !isToken(p) {
			return nil, fmt.Errorf("%w: method %q", ErrBadPattern, p)
		}
	}
	return m, nil
}

func normalPattern(p string) (string, error) {
	if p == "" || p[0] != '/' && p[0] != '*' {
		return "", fmt.Errorf("%w: path %q does not begin with / or *", ErrBadPattern, p)
	}
	if strings.ContainsAny(p, "?#") {
		return "", fmt.Errorf("%w: path %q: a path has no query", ErrBadPattern, p)
	}
	normal, err := normalEscapes(p)
	if err != nil {
		return "", fmt.Errorf("%w: path %q", ErrBadPattern, p)
	}
	if normal[0] == '/' {
		normal = removeDots(normal)
	}
	return normal, nil
}

// Matches reports whether the rule applies to t. It does not allocate.
func (m *Match) Matches(t *Target) bool {
	return (len(m.hosts) == 0 || m.matchesHost(t)) && m.matchesPath(t.Path) && (len(m.methods) == 0 || slices.Contains(m.methods, t.Method))
}

func (m *Match) matchesHost(t *Target) bool {
	host := t.Host()
	for _, p := range m.hosts {
		if glob(p, host) || len(host) != len(t.Authority) && glob(p, t.Authority) {
			return true
		}
	}
	return false
}

func (m *Match) matchesPath(path string) bool {
	if len(m.cut) == 0 {
		return true
	}
	for i := range m.cut {
		if m.cut[i].matches(path) {
			return true
		}
	}
	return false
}

// cutPattern is a pattern cut before its first star. Most of what it does not match differs in the last octet of head.
type cutPattern struct{ head, rest string }

func cutAtStar(pattern string) cutPattern {
	if i := strings.IndexByte(pattern, '*'); i >= 0 {
		return cutPattern{pattern[:i], pattern[i:]}
	}
	return cutPattern{head: pattern}
}

// matches is glob.
func (p *cutPattern) matches(s string) bool {
	n := len(p.head)
	if len(s) < n || n > 0 && s[n-1] != p.head[n-1] || s[:n] != p.head {
		return false
	}
	return glob(p.rest, s[n:])
}

func anyGlob(patterns []string, s string) bool {
	if len(patterns) == 0 {
		return true
	}
	for _, p := range patterns {
		if glob(p, s) {
			return true
		}
	}
	return false
}

// Covers reports that every request that other matches is matched by m too, so that a rule for other behind one for m
// is never reached. It may miss coverage by several patterns together, never the other way round.
func (m *Match) Covers(other *Match) bool {
	return coversAll(m.hosts, other.hosts) && coversAll(m.paths, other.paths) && coversMethods(m.methods, other.methods)
}

func coversAll(wide, narrow []string) bool {
	if len(wide) == 0 || slices.Contains(wide, "*") {
		return true
	}
	// A pattern's own star can only be matched by a star, so a pattern covers another if it matches it as text.
	return len(narrow) > 0 && !slices.ContainsFunc(narrow, func(p string) bool { return !anyGlob(wide, p) })
}

func coversMethods(wide, narrow []string) bool {
	if len(wide) == 0 {
		return true
	}
	return len(narrow) > 0 && !slices.ContainsFunc(narrow, func(m string) bool { return !slices.Contains(wide, m) })
}

// glob reports whether pattern matches all of s; "*" matches any run of octets. Time is bounded by
// len(pattern)·len(s).
func glob(pattern, s string) bool {
	p, i := 0, 0
	star, mark := -1, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case p < len(pattern) && pattern[p] == s[i]:
			p++
			i++
		case star >= 0:
			mark++
			p, i = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
