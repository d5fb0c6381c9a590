package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/swrproxy/swrproxy/policy"
)

const minimal = "origins: { app: { url: http://127.0.0.1:3000 } }\n"

func noEnv(string) (string, bool) { return "", false }

// load parses text with no environment and a fixed memory limit.
func load(text string, flags ...Flag) (*Config, error) {
	return Parse(Options{File: "c.yaml", Env: noEnv, MemoryLimit: 4 << 30, Flags: flags}, []byte(text))
}

func mustLoad(t *testing.T, text string, flags ...Flag) *Config {
	t.Helper()
	cfg, err := load(text, flags...)
	if err != nil {
		t.Fatalf("load:\n%s\n%v", text, err)
	}
	return cfg
}

func TestDefaults(t *testing.T) {
	cfg := mustLoad(t, minimal)
	if got := cfg.Listen; len(got) != 1 || got[0].Addr != "127.0.0.1:8080" {
		t.Errorf("listen %v", got)
	}
	if cfg.Memory.Max != GiB {
		t.Errorf("memory.max %v, want a quarter of 4GiB", cfg.Memory.Max)
	}
	if cfg.Admin.Enabled() || cfg.Disk.Path != "" {
		t.Error("admin and disk must be off by default")
	}
	if len(cfg.Rules) != 1 || cfg.Rules[0].Origin != "app" || cfg.Rules[0].Name != "app" {
		t.Errorf("implied rule %+v", cfg.Rules)
	}
	want := policy.Settings{
		Heuristic: 0.1, HeuristicMax: 24 * time.Hour,
		Targets: []string{"CDN-Cache-Control", "swrproxy-Cache-Control"},
	}
	if diff := cmp.Diff(want, cfg.Rules[0].Settings()); diff != "" {
		t.Errorf("implied rule's settings (-want +got):\n%s", diff)
	}
}

func TestMemoryShare(t *testing.T) {
	for limit, want := range map[uint64]Size{0: 256 * MiB, 1 << 20: 16 * MiB, 2 << 30: 512 * MiB, 1<<64 - 1: 1 << 58} {
		if got := memoryShare(limit); got != want {
			t.Errorf("limit %d: %v, want %v", limit, got, want)
		}
	}
}

func TestRuleSettings(t *testing.T) {
	cfg := mustLoad(t, minimal+`
rules:
  - ttl: 1h30m
    status_ttl: { 404: 10s, 410: never, 500: 0 }
    override: true
    stale_while_revalidate: 10m
    stale_if_error: 1d
    heuristic: { fraction: 0, max: 1w }
    set_cookie: strip
    authorized: true
    request_directives: ignore
    targets: []
    semantics:
      store_partial: true
      lenient_partial: true
      complete_unvalidated: true
      store_post: true
      select_language: true
      trust_not_modified: true
      undated_not_modified: true
      strict_age: true
`)
	got := cfg.Rules[0].Settings()
	want := policy.Settings{
		TTL:       90 * time.Minute,
		StatusTTL: map[int]time.Duration{404: 10 * time.Second, 410: -1, 500: 0},
		Override:  true, StaleWhileRevalidate: 10 * time.Minute, StaleIfError: 24 * time.Hour,
		Heuristic: -1, HeuristicMax: 7 * 24 * time.Hour,
		SetCookie: policy.StripSetCookie, Authorized: true, Directives: policy.IgnoreDirectives,
		Targets:      []string{},
		StorePartial: true, LenientPartial: true, CompleteUnvalidated: true, StorePOST: true,
		SelectLanguage: true, TrustNotModified: true, UndatedNotModified: true, StrictAge: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	// A switch that policy grows must be reachable from a file, and so must stand in this test.
	v := reflect.ValueOf(got)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() {
			t.Errorf("policy.Settings.%s: no key of a rule sets it", name)
		}
	}
}

func TestMatchAndKeyReachPolicy(t *testing.T) {
	cfg := mustLoad(t, minimal+`
rules:
  - match: { host: ["*.Example.org", b.org], path: /static/*, methods: [GET, HEAD] }
    key: { query: { ignore: [utm_*], only: [a, b], sort: true }, headers: [accept-language], cookies: [session] }
`)
	r := cfg.Rules[0]
	if r.Name != "app GET,HEAD *.example.org,b.org/static/*" {
		t.Errorf("derived name %q", r.Name)
	}
	wantMatch := policy.MatchSpec{Hosts: []string{"*.example.org", "b.org"}, Paths: []string{"/static/*"}, Methods: []string{"GET", "HEAD"}}
	if diff := cmp.Diff(wantMatch, r.Match.MatchSpec()); diff != "" {
		t.Error(diff)
	}
	wantKey := policy.KeySpec{
		Query:   policy.QuerySpec{Ignore: []string{"utm_*"}, Only: []string{"a", "b"}, Sort: true},
		Headers: []string{"accept-language"}, Cookies: []string{"session"},
	}
	if diff := cmp.Diff(wantKey, r.Key.KeySpec()); diff != "" {
		t.Error(diff)
	}
}

func TestEnvironment(t *testing.T) {
	env := func(name string) (string, bool) {
		v, ok := map[string]string{
			"APP": "http://app:3000", "ADDR": "127.0.0.1", "PORT": "9090", "YES": "true", "EVIL": "a }\nadmin: { listen: :1",
			"NAME": "app", "TOKEN": "s3cret",
		}[name]
		return v, ok
	}
	cfg, err := Parse(Options{File: "c.yaml", Env: env}, []byte(`
# ${NOT_SET} in a comment is nothing
listen: ${ADDR}:${PORT}
admin: {listen: 127.0.0.1:1, token: "${TOKEN}", pprof: ${YES}}
origins: {${NAME}: {url: ${APP}, tls: {}}}
rules: [{name: "a $${NOT} ${YES}", origin: app}]
`))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Listen[0].Addr != "127.0.0.1:9090" || cfg.Origins["app"].URL != "http://app:3000" || !cfg.Admin.Pprof || cfg.Admin.Token != "s3cret" {
		t.Errorf("got %s", cfg.YAML())
	}
	if cfg.Rules[0].Name != "a ${NOT} true" {
		t.Errorf("name %q", cfg.Rules[0].Name)
	}
	// A variable cannot add keys.
	_, err = Parse(Options{File: "c.yaml", Env: env}, []byte(minimal+"log: { level: ${EVIL} }"))
	if err == nil || !strings.Contains(err.Error(), "log.level") {
		t.Errorf("a variable with YAML in it: %v", err)
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	cfg := mustLoad(t, minimal+"admin: { listen: ':8081', token: hunter2 }\n")
	for _, text := range []string{string(cfg.YAML()), fmt.Sprint(cfg.Admin), fmt.Sprintf("%+v", cfg.Admin)} {
		if strings.Contains(text, "hunter2") {
			t.Errorf("the token is in %q", text)
		}
	}
	_, err := load("origins: { app: { url: 'http://user:hunter2@h' }, b: { url: 'http://us er:hunter2@h' } }")
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a password in a message: %v", err)
	}
	_, err = load(minimal + "admin: { listen: x, token: hunter2 }\n")
	if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "token: ******* }") {
		t.Errorf("the token in an excerpt: %v", err)
	}
}

// Printed settings are settings: loading them gives the same.
func TestPrintedSettingsLoadAgain(t *testing.T) {
	files := map[string]string{"minimal": minimal, "example": readExample(t)}
	for name, text := range files {
		cfg := mustLoad(t, text)
		again := mustLoad(t, string(cfg.YAML()))
		if diff := cmp.Diff(string(cfg.YAML()), string(again.YAML())); diff != "" {
			t.Errorf("%s (-first +again):\n%s", name, diff)
		}
		if diff := cfg.Changes(again); len(diff) > 0 {
			t.Errorf("%s: changed by printing: %v", name, diff)
		}
	}
}

func TestFlags(t *testing.T) {
	t.Run("alone", func(t *testing.T) {
		cfg := mustLoad(
			t, "",
			Flag{Name: "--listen", Path: "listen", Values: []string{"127.0.0.1:0", ":9"}},
			Flag{Name: "--origin", Path: PathOrigin, Values: []string{"http://a:1", "http://b:1"}},
			Flag{Name: "--ttl", Path: "rules[].ttl", Values: []string{"5s"}},
			Flag{Name: "--memory", Path: "memory.max", Values: []string{"64MiB"}},
		)
		if len(cfg.Listen) != 2 || len(cfg.Origins["origin"].URLs) != 2 || cfg.Memory.Max != 64*MiB {
			t.Errorf("got %s", cfg.YAML())
		}
		if len(cfg.Rules) != 1 || time.Duration(cfg.Rules[0].TTL) != 5*time.Second {
			t.Errorf("rules %+v", cfg.Rules)
		}
	})
	t.Run("over a file", func(t *testing.T) {
		cfg := mustLoad(
			t, minimal+"listen: ':1'\nrules: [{match: {path: /a}, ttl: 1s}, {ttl: 2s}]",
			Flag{Name: "--listen", Path: "listen", Values: []string{":2"}},
			Flag{Name: "--origin", Path: PathOrigin, Values: []string{"http://b:1"}},
			Flag{Name: "--ttl", Path: "rules[].ttl", Values: []string{"5s"}},
		)
		if cfg.Listen[0].Addr != ":2" || cfg.Origins["app"].Servers()[0] != "http://b:1" {
			t.Errorf("got %s", cfg.YAML())
		}
		for _, r := range cfg.Rules {
			if time.Duration(r.TTL) != 5*time.Second {
				t.Errorf("rule %s has ttl %v", r.Name, r.TTL)
			}
		}
	})
	for name, c := range map[string]struct {
		flag Flag
		want string
	}{
		"bad value":       {Flag{Name: "--ttl", Path: "rules[].ttl", Values: []string{"soon"}}, `--ttl: "soon" is not a duration`},
		"bad origin":      {Flag{Name: "--origin", Path: PathOrigin, Values: []string{"app"}}, `--origin: "app" has no scheme`},
		"across settings": {Flag{Name: "--admin", Path: "admin.listen", Values: []string{":1"}}, "--admin: :1 can be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(minimal+"rules: [{match: {path: /a}}, {}]", c.flag)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want %q in it", err, c.want)
			}
			if n := strings.Count(err.Error(), c.flag.Name+":"); n != 1 {
				t.Errorf("told %d times:\n%v", n, err)
			}
		})
	}
	t.Run("ambiguous origin", func(t *testing.T) {
		_, err := load("origins: {a: {url: http://a}, b: {url: http://b}}\nrules: [{origin: a}]",
			Flag{Name: "--origin", Path: PathOrigin, Values: []string{"http://c"}})
		if err == nil || !strings.Contains(err.Error(), "--origin: the file has several origins") {
			t.Errorf("error %v", err)
		}
	})
}

func TestWarnings(t *testing.T) {
	for name, c := range map[string]struct{ text, path string }{
		"SEC-02 override":      {minimal + "rules: [{ttl: 1s, override: true}]", "rules[0].override"},
		"SEC-01 kept cookies":  {minimal + "rules: [{set_cookie: keep}]", "rules[0].set_cookie"},
		"SEC-04 authorized":    {minimal + "rules: [{authorized: true}]", "rules[0].authorized"},
		"insecure origin":      {"origins: {a: {url: https://h, tls: {insecure: true}}}", "origins.a.tls.insecure"},
		"purged by everybody":  {minimal + "purge: { allow: '::/0' }", "purge.allow[0]"},
		"more than there is":   {minimal + "memory: {max: 99999GiB}", "memory.max"},
		"trust everybody":      {minimal + "trusted_proxies: 0.0.0.0/0", "trusted_proxies[0]"},
		"origin without rules": {"origins: {a: {url: http://a}, b: {url: http://b}}\nrules: [{origin: a}]", "origins.b"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := mustLoad(t, c.text)
			if len(cfg.Warnings()) != 1 || cfg.Warnings()[0].Path != c.path || cfg.Warnings()[0].Line == 0 {
				t.Errorf("warnings %v, want one at %s", cfg.Warnings(), c.path)
			}
		})
	}
	if w := mustLoad(t, minimal).Warnings(); len(w) > 0 {
		t.Errorf("warnings of a harmless file: %v", w)
	}
}

func TestChanges(t *testing.T) {
	a := mustLoad(t, minimal)
	b := mustLoad(t, "origins: { app: { url: http://127.0.0.1:3001 } }\nlog: {level: debug}\nhttp: {idle: 5s}\nlisten: ':1'\nadmin: {listen: '127.0.0.1:2'}")
	want := []string{"listen", "http.idle", "admin.listen", "log.level", "origins"}
	if diff := cmp.Diff(want, a.Changes(b)); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if !Under("log.level", "log") || !Under("origins", "origins") || Under("logs", "log") {
		t.Error("Under is wrong")
	}
}

func TestAnchorsAndMerges(t *testing.T) {
	cfg := mustLoad(t, `
x-slow: &slow { timeouts: { header: 2m }, host: origin }
x-hosts: &hosts [a.org, b.org]
origins:
  a: { <<: *slow, url: http://a, host: preserve }
  b: &b { <<: [*slow, { url: http://b }] }
rules:
  - { origin: a, match: { host: *hosts } }
  - origin: b
`)
	a, b := cfg.Origins["a"], cfg.Origins["b"]
	if a.Host != HostPreserve || b.Host != HostOfOrigin || a.Timeouts.Header != b.Timeouts.Header || time.Duration(b.Timeouts.Header) != 2*time.Minute {
		t.Errorf("a %+v\nb %+v", a, b)
	}
	if len(cfg.Rules[0].Match.Host) != 2 {
		t.Errorf("hosts %v", cfg.Rules[0].Match.Host)
	}
}

func TestAliasesCannotExplode(t *testing.T) {
	var b strings.Builder
	b.WriteString("x-0: &a0 [a.org, a.org]\n")
	for i := 1; i < 40; i++ {
		fmt.Fprintf(&b, "x-%d: &a%d [*a%d, *a%d]\n", i, i, i-1, i-1)
	}
	b.WriteString(minimal + "rules: [{match: {host: *a39}}]\n")
	if _, err := load(b.String()); err == nil {
		t.Fatal("no error")
	}
	if _, err := load("origins: &a {app: *a}\n"); err == nil {
		t.Fatal("no error for an alias inside its own anchor")
	}
}

func TestProblemsAreCollected(t *testing.T) {
	_, err := load("lisen: x\nfill: {tenure: soon}\nlog: {level: loud}\n")
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("error %v", err)
	}
	var got []string
	for _, p := range e.Problems {
		got = append(got, p.Path)
	}
	want := []string{"origins", "lisen", "fill.tenure", "log.level"}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}

func TestExcerptPointsAtTheColumn(t *testing.T) {
	_, err := load(minimal + "fill:\n  tenure: soon\n")
	want := `c.yaml:3:11: fill.tenure: "soon" is not a duration
    3 |   tenure: soon
      |           ^
      → write a number and a unit: 300ms, 10s, 5m, 1h, 7d`
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
}

func TestLongLinesAreCut(t *testing.T) {
	for name, c := range map[string]struct {
		before, after int
		want          string
	}{
		"short": {2, 2, "aaXbb"},
		"begin": {0, 300, "X" + strings.Repeat("b", maxExcerpt-1) + "…"},
		"end":   {300, 0, "…" + strings.Repeat("a", maxExcerpt-1) + "X"},
		"both":  {300, 300, "…" + strings.Repeat("a", beforeMark) + "X" + strings.Repeat("b", maxExcerpt-beforeMark-1) + "…"},
	} {
		text, mark := excerpt(strings.Repeat("a", c.before)+"X"+strings.Repeat("b", c.after), c.before+1)
		if text != c.want {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
		if got := []rune(text)[mark-1]; got != 'X' {
			t.Errorf("%s: the mark is under %q", name, got)
		}
	}
}

func TestManyMistakesAreNotAllTold(t *testing.T) {
	_, err := load(minimal + "fill:\n" + strings.Repeat("  x: 1\n  y: 2\n", 100))
	e, ok := errors.AsType[*Error](err)
	if !ok || len(e.Problems) != maxProblems || e.More != 200-maxProblems || !strings.HasSuffix(err.Error(), fmt.Sprintf("and %d more", e.More)) {
		t.Errorf("error %v", err)
	}
}
