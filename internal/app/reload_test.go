package app

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReloadPutsRulesAndOriginsIntoUse(t *testing.T) {
	one := newSource(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("one")) })
	two := newSource(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("two")) })
	r := start(t, base+"origins: { app: { url: "+one.URL+" } }\n")
	defer r.stop()
	if _, body, _ := r.get("/"); body != "one" {
		t.Fatalf("body %q", body)
	}
	r.file = base + "origins: { app: { url: " + two.URL + " } }\nrules: [{ name: app, ttl: 1m }]\n"
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, body, _ := r.get("/"); body != "two" {
			t.Errorf("after the reload: body %q", body)
		}
	}
	if n := two.calls.Load(); n != 1 {
		t.Errorf("%d calls, want 1: the new rule's ttl", n)
	}
}

func TestReloadKeepsRecordsAndUnchangedOrigins(t *testing.T) {
	o := newSource(t, cacheable)
	r := start(t, base+"origins: { app: { url: "+o.URL+" } }\n")
	defer r.stop()
	r.get("/kept")
	before := r.pools.current()["app"]
	r.file = base + "log: { level: warn }\norigins: { app: { url: " + o.URL + " } }\nrules: [{ stale_if_error: 1h }]\n"
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	if r.pools.current()["app"] != before {
		t.Error("the origin did not change and its pool did")
	}
	r.get("/kept")
	if n := o.calls.Load(); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
}

func TestReloadOfABadFileChangesNothing(t *testing.T) {
	o := newSource(t, cacheable)
	good := base + "origins: { app: { url: " + o.URL + " } }\n"
	for name, c := range map[string]struct{ file, told string }{
		"mistake":  {good + "rules: [{ origin: ap }, { tll: 1s }]\n", `"line":5`},
		"not YAML": {"rules: [", `"line":1`},
		"missing certificate authority": {
			base + "origins: { app: { url: https://h, tls: { ca: /does/not/exist.pem } } }\n", "/does/not/exist.pem",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, good)
			defer r.stop()
			cfg, set := r.cfg, r.pools.current()
			r.file = c.file
			if err := r.Reload(); err == nil {
				t.Fatal("no error")
			}
			if lines := r.log.entries("settings not reloaded, the old ones stay"); len(lines) == 0 || !strings.Contains(r.log.String(), c.told) {
				t.Errorf("log:\n%s", r.log)
			}
			if r.cfg != cfg || cmp.Diff(len(set), len(r.pools.current())) != "" || set["app"] != r.pools.current()["app"] {
				t.Error("something changed")
			}
			if status, _, _ := r.get("/"); status != http.StatusOK {
				t.Errorf("status %d", status)
			}
		})
	}
}

func TestReloadNamesWhatNeedsARestart(t *testing.T) {
	o := newSource(t, cacheable)
	origins := "origins: { app: { url: " + o.URL + " } }\n"
	r := start(t, base+origins)
	defer r.stop()
	changed := strings.Replace(base, "16MiB", "32MiB", 1) + "fill: { tenure: 3s }\nlog: { level: debug }\n" + origins
	r.file = changed
	for range 2 { // the second reload still differs from what runs
		if err := r.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	lines := r.log.entries("changed settings that need a restart")
	if len(lines) != 2 {
		t.Fatalf("%d lines:\n%s", len(lines), r.log)
	}
	for _, line := range lines {
		if diff := cmp.Diff([]any{"memory.max", "fill.tenure"}, line["keys"]); diff != "" {
			t.Errorf("keys (-want +got):\n%s", diff)
		}
	}
}

func TestReloadChangesTheLogLevel(t *testing.T) {
	o := newSource(t, cacheable)
	origins := "origins: { app: { url: " + o.URL + " } }\n"
	r := start(t, base+origins)
	defer r.stop()
	lines := func(path string) int {
		n := 0
		for line := range strings.Lines(r.log.String()) {
			if strings.Contains(line, `"path":"`+path+`"`) {
				n++
			}
		}
		return n
	}
	r.get("/loud")
	r.file = base + "log: { level: error }\n" + origins
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	r.get("/quiet")
	r.file = base + origins
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	r.get("/loud-again")
	r.stopQuietly()
	if lines("/loud") != 1 || lines("/quiet") != 0 || lines("/loud-again") != 1 {
		t.Errorf("log:\n%s", r.log)
	}
}

// stopQuietly waits for the last line of each request, which is written after the answer.
func (r *running) stopQuietly() {
	_ = r.server.Drain(r.t.Context())
	_ = r.lines.Close()
}
