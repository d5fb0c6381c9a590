package policy

import (
	"errors"
	"testing"
)

func mustMatch(t testing.TB, spec MatchSpec) *Match {
	t.Helper()
	m, err := NewMatch(spec)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMatch(t *testing.T) {
	for name, tt := range map[string]struct {
		spec MatchSpec
		t    Target
		want bool
	}{
		"empty matches all":         {MatchSpec{}, Target{"GET", "http", "a", "/", ""}, true},
		"host":                      {MatchSpec{Hosts: []string{"A.example"}}, Target{"GET", "http", "a.example", "/", ""}, true},
		"other host":                {MatchSpec{Hosts: []string{"a.example"}}, Target{"GET", "http", "b.example", "/", ""}, false},
		"host on any port":          {MatchSpec{Hosts: []string{"a.example"}}, Target{"GET", "http", "a.example:8080", "/", ""}, true},
		"host and port":             {MatchSpec{Hosts: []string{"a.example:8080"}}, Target{"GET", "http", "a.example:8080", "/", ""}, true},
		"host and other port":       {MatchSpec{Hosts: []string{"a.example:8080"}}, Target{"GET", "http", "a.example:8081", "/", ""}, false},
		"IPv6":                      {MatchSpec{Hosts: []string{"[::1]"}}, Target{"GET", "http", "[::1]:81", "/", ""}, true},
		"subdomain":                 {MatchSpec{Hosts: []string{"*.example"}}, Target{"GET", "http", "x.a.example", "/", ""}, true},
		"star is not the domain":    {MatchSpec{Hosts: []string{"*.a.example"}}, Target{"GET", "http", "a.example", "/", ""}, false},
		"suffix is no subdomain":    {MatchSpec{Hosts: []string{"*.a.example"}}, Target{"GET", "http", "evila.example", "/", ""}, false},
		"path prefix":               {MatchSpec{Paths: []string{"/static/*"}}, Target{"GET", "http", "a", "/static/x/y.css", ""}, true},
		"prefix itself":             {MatchSpec{Paths: []string{"/static/*"}}, Target{"GET", "http", "a", "/static/", ""}, true},
		"not the prefix":            {MatchSpec{Paths: []string{"/static/*"}}, Target{"GET", "http", "a", "/static", ""}, false},
		"path suffix":               {MatchSpec{Paths: []string{"*.css"}}, Target{"GET", "http", "a", "/x/y.css", ""}, true},
		"star in the middle":        {MatchSpec{Paths: []string{"/a/*/c*d"}}, Target{"GET", "http", "a", "/a/b/b/ccd", ""}, true},
		"pattern is normalised":     {MatchSpec{Paths: []string{"/%70rivate%2fx/../*"}}, Target{"GET", "http", "a", "/y", ""}, true},
		"any of the paths":          {MatchSpec{Paths: []string{"/a", "/b"}}, Target{"GET", "http", "a", "/b", ""}, true},
		"encoded slash is no slash": {MatchSpec{Paths: []string{"/private/*"}}, Target{"GET", "http", "a", "/private%2Fx", ""}, false},
		"method":                    {MatchSpec{Methods: []string{"GET", "HEAD"}}, Target{"HEAD", "http", "a", "/", ""}, true},
		"other method":              {MatchSpec{Methods: []string{"GET"}}, Target{"HEAD", "http", "a", "/", ""}, false},
		"all lists must match":      {MatchSpec{Hosts: []string{"a"}, Paths: []string{"/x"}}, Target{"GET", "http", "a", "/", ""}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := mustMatch(t, tt.spec).Matches(&tt.t); got != tt.want {
				t.Errorf("matches = %v", got)
			}
		})
	}
}

// A pattern that is cut at its star matches what the whole does.
func TestCutPattern(t *testing.T) {
	for _, pattern := range []string{"", "/", "/a", "/a*", "*", "/*", "*.css", "/a*b", "/a*b*", "/ab"} {
		for _, s := range []string{"", "/", "/a", "/b", "/ab", "/a/b", "/abc", "/x.css", "/b.css/", "/cb"} {
			if cut := cutAtStar(pattern); cut.matches(s) != glob(pattern, s) {
				t.Errorf("%q, %q: %t", pattern, s, cut.matches(s))
			}
		}
	}
}

func TestNewMatchRefuses(t *testing.T) {
	for _, spec := range []MatchSpec{
		{Hosts: []string{""}},
		{Hosts: []string{"http://a"}},
		{Paths: []string{"static/*"}},
		{Paths: []string{""}},
		{Paths: []string{"/a?b=*"}},
		{Paths: []string{"/%zz"}},
		{Methods: []string{"GET POST"}},
	} {
		if _, err := NewMatch(spec); !errors.Is(err, ErrBadPattern) {
			t.Errorf("NewMatch(%+v) = %v", spec, err)
		}
	}
}

func TestCovers(t *testing.T) {
	for name, tt := range map[string]struct {
		wide, narrow MatchSpec
		want         bool
	}{
		"everything":            {MatchSpec{}, MatchSpec{Hosts: []string{"a"}, Paths: []string{"/x"}, Methods: []string{"GET"}}, true},
		"not everything":        {MatchSpec{Paths: []string{"/x"}}, MatchSpec{}, false},
		"star is everything":    {MatchSpec{Hosts: []string{"*"}, Paths: []string{"*"}}, MatchSpec{}, true},
		"prefix":                {MatchSpec{Paths: []string{"/a/*"}}, MatchSpec{Paths: []string{"/a/b/*", "/a/c"}}, true},
		"other prefix":          {MatchSpec{Paths: []string{"/a/*"}}, MatchSpec{Paths: []string{"/a/b", "/b"}}, false},
		"narrower than":         {MatchSpec{Paths: []string{"/a/b"}}, MatchSpec{Paths: []string{"/a/*"}}, false},
		"slash all":             {MatchSpec{Paths: []string{"/*"}}, MatchSpec{Paths: []string{"/a*b"}}, true},
		"suffix against a star": {MatchSpec{Paths: []string{"*.css"}}, MatchSpec{Paths: []string{"/a/*"}}, false},
		"hosts":                 {MatchSpec{Hosts: []string{"*.example"}}, MatchSpec{Hosts: []string{"a.example", "*.b.example"}}, true},
		"methods":               {MatchSpec{Methods: []string{"GET", "HEAD"}}, MatchSpec{Methods: []string{"GET"}}, true},
		"methods are narrower":  {MatchSpec{Methods: []string{"GET"}}, MatchSpec{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := mustMatch(t, tt.wide).Covers(mustMatch(t, tt.narrow)); got != tt.want {
				t.Errorf("covers = %v", got)
			}
		})
	}
}
