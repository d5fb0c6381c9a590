package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// listed is what go list says of a package.
type listed struct {
	ImportPath string
	Standard   bool
	Imports    []string
	Deps       []string
}

// packages lists all packages of the module by their path below it.
func packages(t *testing.T) map[string]listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Standard,Imports,Deps", Module+"/...")
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	all := make(map[string]listed)
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all[below(p.ImportPath)] = p
	}
	if len(all) < 10 {
		t.Fatalf("go list shows only %d packages", len(all))
	}
	return all
}

// below returns a path without the module's, or the path itself if it is no package of the module.
func below(path string) string { return strings.TrimPrefix(path, Module+"/") }

func TestImportsFollowTheTable(t *testing.T) {
	for from, p := range packages(t) {
		for _, path := range p.Imports {
			to := below(path)
			if to == path {
				continue // not of this module
			}
			if _, ok := allowed(from, to); !ok {
				t.Errorf("%s imports %s: not in the table of edges", from, to)
			}
		}
	}
}

func TestNobodyImportsTheIntegrationTests(t *testing.T) {
	for from, p := range packages(t) {
		for _, path := range p.Imports {
			if strings.HasPrefix(below(path), "integration") && !strings.HasPrefix(from, "integration") {
				t.Errorf("%s imports %s", from, below(path))
			}
		}
	}
}

func TestBarredImportsAreNotReached(t *testing.T) {
	all := packages(t)
	for _, b := range Barred {
		p, ok := all[b.From]
		if !ok {
			t.Errorf("package %s of the table does not exist", b.From)
			continue
		}
		reached := p.Deps
		if b.To == "net" {
			reached = p.Imports // net/http itself needs it
		}
		for _, path := range reached {
			if matches(b.To, path) {
				t.Errorf("%s reaches %s: %s", b.From, path, b.Reason)
			}
		}
	}
}

func TestPolicyImportsOnlyAParserBesideTheStandardLibrary(t *testing.T) {
	for _, path := range packages(t)["policy"].Imports {
		standard := !strings.Contains(strings.Split(path, "/")[0], ".")
		if _, ok := PolicyMay[path]; !standard && !ok {
			t.Errorf("policy imports %s", path)
		}
	}
}

func TestEveryEdgeHasAReason(t *testing.T) {
	for _, e := range append(slices.Clone(Edges), Barred...) {
		if e.Reason == "" {
			t.Errorf("%s → %s has no reason", e.From, e.To)
		}
	}
}

func TestEveryEdgeIsUsed(t *testing.T) {
	all := packages(t)
	for _, e := range Edges {
		used := false
		for from, p := range all {
			used = used || matches(e.From, from) && slices.ContainsFunc(p.Imports, func(path string) bool { return matches(e.To, below(path)) })
		}
		if !used {
			t.Errorf("%s → %s: nobody uses this edge any more", e.From, e.To)
		}
	}
}

func TestPatternsMatchWhatTheySay(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"cache", "cache", true},
		{"cache", "cache/disk", false},
		{"cache/...", "cache", true},
		{"cache/...", "cache/disk", true},
		{"cache/...", "cachetest", false},
	} {
		if got := matches(c.pattern, c.path); got != c.want {
			t.Errorf("%s matches %s: %v, want %v", c.pattern, c.path, got, c.want)
		}
	}
}
