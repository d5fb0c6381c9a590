package config

import (
	"strings"
	"time"

	"github.com/swrproxy/swrproxy/policy"
)

// Rule says which requests it is for and how they are cached.
type Rule struct {
	// Name keeps the rule's records apart from those of others. Load fills it in when the file does not.
	Name                 string            `yaml:"name"`
	Match                Match             `yaml:"match"`
	Origin               string            `yaml:"origin"`
	Pass                 bool              `yaml:"pass"`
	TTL                  Duration          `yaml:"ttl"`
	StatusTTL            map[int]StatusTTL `yaml:"status_ttl"`
	Override             bool              `yaml:"override"`
	StaleWhileRevalidate Duration          `yaml:"stale_while_revalidate"`
	StaleIfError         Duration          `yaml:"stale_if_error"`
	Heuristic            Heuristic         `yaml:"heuristic"`
	SetCookie            SetCookie         `yaml:"set_cookie"`
	Authorized           bool              `yaml:"authorized"`
	RequestDirectives    RequestDirectives `yaml:"request_directives"`
	Targets              []FieldName       `yaml:"targets"`
	Key                  Key               `yaml:"key"`
	Semantics            Semantics         `yaml:"semantics"`
}

// Match selects requests. An empty list selects all.
type Match struct {
	Host    []HostGlob `yaml:"host"`
	Path    []PathGlob `yaml:"path"`
	Methods []Method   `yaml:"methods"`
}

// Key says what beside scheme, authority, path and query tells records apart.
type Key struct {
	Query   Query       `yaml:"query"`
	Headers []FieldName `yaml:"headers"`
	Cookies []Token     `yaml:"cookies"`
}

// Query says which parameters count.
type Query struct {
	Ignore    []ParamGlob `yaml:"ignore"`
	Only      []ParamGlob `yaml:"only"`
	IgnoreAll bool        `yaml:"ignore_all"`
	Sort      bool        `yaml:"sort"`
}

// Heuristic bounds freshness guessed from Last-Modified. Fraction 0 turns it off.
type Heuristic struct {
	Fraction Fraction `yaml:"fraction"`
	Max      Duration `yaml:"max" is:"positive"`
}

// Semantics are named switches on single points of HTTP caching. All are off unless set.
type Semantics struct {
	StorePartial        bool `yaml:"store_partial"`
	LenientPartial      bool `yaml:"lenient_partial"`
	CompleteUnvalidated bool `yaml:"complete_unvalidated"`
	StorePOST           bool `yaml:"store_post"`
	SelectLanguage      bool `yaml:"select_language"`
	TrustNotModified    bool `yaml:"trust_not_modified"`
	UndatedNotModified  bool `yaml:"undated_not_modified"`
	StrictAge           bool `yaml:"strict_age"`
}

// MatchSpec returns the selection in policy's terms.
func (m Match) MatchSpec() policy.MatchSpec {
	return policy.MatchSpec{Hosts: texts(m.Host), Paths: texts(m.Path), Methods: texts(m.Methods)}
}

// KeySpec returns the key in policy's terms, without a space.
func (k Key) KeySpec() policy.KeySpec {
	return policy.KeySpec{
		Query: policy.QuerySpec{
			IgnoreAll: k.Query.IgnoreAll,
			Ignore:    texts(k.Query.Ignore),
			Only:      texts(k.Query.Only),
			Sort:      k.Query.Sort,
		},
		Headers: texts(k.Headers),
		Cookies: texts(k.Cookies),
	}
}

// Settings returns the rule's stale policy.
func (r Rule) Settings() policy.Settings {
	return policy.Settings{
		TTL:                  time.Duration(r.TTL),
		StatusTTL:            statusTTLs(r.StatusTTL),
		Override:             r.Override,
		StaleWhileRevalidate: time.Duration(r.StaleWhileRevalidate),
		StaleIfError:         time.Duration(r.StaleIfError),
		Heuristic:            r.Heuristic.fraction(),
		HeuristicMax:         time.Duration(r.Heuristic.Max),
		SetCookie:            r.SetCookie.policy(),
		Authorized:           r.Authorized,
		Directives:           r.RequestDirectives.policy(),
		Targets:              texts(r.Targets),
		StorePartial:         r.Semantics.StorePartial,
		LenientPartial:       r.Semantics.LenientPartial,
		CompleteUnvalidated:  r.Semantics.CompleteUnvalidated,
		StorePOST:            r.Semantics.StorePOST,
		SelectLanguage:       r.Semantics.SelectLanguage,
		TrustNotModified:     r.Semantics.TrustNotModified,
		UndatedNotModified:   r.Semantics.UndatedNotModified,
		StrictAge:            r.Semantics.StrictAge,
	}
}

// fraction turns "0 is off" into policy's "negative is off".
func (h Heuristic) fraction() float64 {
	if h.Fraction == 0 {
		return -1
	}
	return float64(h.Fraction)
}

func statusTTLs(m map[int]StatusTTL) map[int]time.Duration {
	if len(m) == 0 {
		return nil
	}
	out := make(map[int]time.Duration, len(m))
	for status, d := range m {
		out[status] = time.Duration(d)
	}
	return out
}

// texts converts a list of named strings; it is never nil, so that an empty list of targets stays "none".
func texts[S ~string](list []S) []string {
	out := make([]string, 0, len(list))
	for _, s := range list {
		out = append(out, string(s))
	}
	return out
}

// describe names a rule by what it does: the origin, then what it matches.
func (r Rule) describe() string {
	parts := []string{r.Origin}
	if r.Pass {
		parts = append(parts, "pass")
	}
	if len(r.Match.Methods) > 0 {
		parts = append(parts, strings.Join(texts(r.Match.Methods), ","))
	}
	where := strings.Join(texts(r.Match.Host), ",") + strings.Join(texts(r.Match.Path), ",")
	if where != "" {
		parts = append(parts, where)
	}
	return strings.Join(parts, " ")
}
