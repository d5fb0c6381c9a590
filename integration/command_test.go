package integration

import (
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// Promise: the command line does what its help says, and a mistake is reported where it is.

func TestFlagsAloneAreEnough(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/f", page()).on("/err", page(), answer(http.StatusServiceUnavailable, "down"))
	p := startArgs(t, 1, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--origin", o.url,
		"--ttl", "1s", "--stale-while-revalidate", "10m", "--stale-if-error", "1h", "--log-format", "json")
	p.prime("/f")
	r := p.get("/f")
	r.want(t, http.StatusOK, version(1, "/f"))
	r.wantHit(t, true)
	expire()
	p.get("/f").want(t, http.StatusOK, version(1, "/f"))
	p.awaitBody("/f", version(2, "/f"))
}

func TestCheckPrintsTheEffectiveSettings(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "good.yaml")
	writeFile(t, file, conf{Origin: "http://127.0.0.1:9"}.yaml())
	code, out, errs := command(t, "check", "--config", file)
	if code != 0 {
		t.Fatalf("exit status %d: %s", code, errs)
	}
	for _, want := range []string{"tenure: 3s", "stale", "http://127.0.0.1:9", "64MiB"} {
		if !strings.Contains(out, want) {
			t.Errorf("output lacks %q:\n%s", want, out)
		}
	}
}

func TestCheckPointsAtMistakes(t *testing.T) {
	t.Parallel()
	good := conf{Origin: "http://127.0.0.1:9"}.yaml()
	cases := []struct{ name, text, at, says string }{
		{"unknown key", good + "memmory: { max: 1MiB }\n", "memmory", "memory"},
		{"duplicate key", good + "memory: { max: 1MiB }\n", "memory", "memory"},
		{"bad size", strings.Replace(good, "64MiB", "64 bananas", 1), "64 bananas", "MiB"},
		{"bad duration", strings.Replace(good, "wait: 15s", "wait: 15", 1), "wait: 15,", "15s"},
		{"bad address", strings.Replace(good, "listen: 127.0.0.1:0", "listen: 127.0.0.1:99999", 1), "99999", "65535"},
		{"unreachable rule", good + "rules:\n  - { origin: app }\n  - { match: { path: /x }, origin: app }\n", "path: /x", "rule"},
		{"unknown origin", good + "rules:\n  - { origin: other }\n", "other", "app"},
		{"unset variable", good + "disk: { path: \"${SWRPROXY_SURELY_NOT_SET}\" }\n", "SURELY", "SWRPROXY_SURELY_NOT_SET"},
		{"not YAML", good + "rules: [\n", "", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "bad.yaml")
			writeFile(t, file, c.text)
			code, out, errs := command(t, "check", "--config", file)
			text := out + errs
			if code == 0 {
				t.Fatalf("exit status 0, output:\n%s", text)
			}
			if !regexp.MustCompile(regexp.QuoteMeta(file) + `:\d+:\d+`).MatchString(text) {
				t.Errorf("no file:line:column in:\n%s", text)
			}
			if !strings.Contains(text, c.says) {
				t.Errorf("does not say %q:\n%s", c.says, text)
			}
			if line := lineWith(c.text, c.at); c.at != "" && !strings.Contains(text, line) {
				t.Errorf("does not show the line %q:\n%s", line, text)
			}
		})
	}
}

func lineWith(text, part string) string {
	lines := strings.Split(text, "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if strings.Contains(lines[i], part) {
			return strings.TrimSpace(lines[i])
		}
	}
	return ""
}

func TestExampleConfigurationIsValid(t *testing.T) {
	t.Parallel()
	code, _, errs := command(t, "check", "--config", filepath.Join("..", "config.example.yaml"))
	if code != 0 {
		t.Errorf("exit status %d: %s", code, errs)
	}
}

// An address that is taken is an error at start, not a proxy that listens nowhere.
func TestTakenAddressIsAnError(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	code, out, errs := command(t, "--listen", o.addr, "--origin", o.url)
	if code == 0 || !strings.Contains(out+errs, o.addr) {
		t.Errorf("exit status %d, output:\n%s%s", code, out, errs)
	}
}

func TestReloadTakesNewRulesAndKeepsRecords(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/kept", page("Cache-Control: max-age=600")).on("/bare", page())
	p := start(t, conf{Origin: o.url, Rules: "  - { name: all, origin: app }"})
	p.prime("/kept")
	p.prime("/bare")
	p.get("/bare").want(t, http.StatusOK, version(2, "/bare"))

	writeFile(t, p.file, conf{Origin: o.url, Rules: "  - { name: all, origin: app, ttl: 10m }"}.yaml())
	p.reload()
	if !eventually(func() bool { return p.get("/bare").hit() }) {
		t.Error("the new rule's ttl does not apply")
	}
	p.get("/kept").want(t, http.StatusOK, version(1, "/kept"))
	o.wantCalls("/kept", 1)

	// A file with a mistake is reported and changes nothing.
	writeFile(t, p.file, "rules: nonsense\n")
	p.reload()
	if !eventually(func() bool { return len(p.warnings("rules")) > 0 }) {
		t.Error("no word about the broken file")
	}
	p.get("/bare").wantHit(t, true)
}

func (p *proxy) reload() {
	p.t.Helper()
	if err := p.Signal(syscall.SIGHUP); err != nil {
		p.t.Fatal(err)
	}
}

// The demo is one process: its first line of curl works.
func TestDemo(t *testing.T) {
	t.Parallel()
	p := startArgs(t, 1, "demo", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	var urls []string
	if !eventually(func() bool {
		urls = regexp.MustCompile(`curl[^\n]*?(http://127\.0\.0\.1:\d+/\S*)`).FindStringSubmatch(p.Stdout().String())
		return len(urls) > 0
	}) {
		t.Fatalf("no curl line in the output:\n%s", p.Stdout())
	}
	url := strings.Trim(urls[1], `'"`)
	first, body1 := fetchURL(t, http.DefaultClient, url)
	second, body2 := fetchURL(t, http.DefaultClient, url)
	if first.StatusCode != http.StatusOK || second.StatusCode != http.StatusOK || body1 == "" {
		t.Errorf("%s: status %d, then %d, body %q", url, first.StatusCode, second.StatusCode, clip(body1))
	}
	if !strings.Contains(second.Header.Get("Cache-Status"), "hit") || body1 != body2 {
		t.Errorf("%s: second read is no hit: %q", url, second.Header.Get("Cache-Status"))
	}
}

func TestHelpNamesTheCommands(t *testing.T) {
	t.Parallel()
	code, out, errs := command(t, "--help")
	if code != 0 {
		t.Errorf("exit status %d: %s", code, errs)
	}
	for _, want := range []string{"serve", "check", "demo", "--config", "--origin"} {
		if !strings.Contains(out+errs, want) {
			t.Errorf("help lacks %q", want)
		}
	}
}
