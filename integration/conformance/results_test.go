package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var sampleRun = results{tests: []result{
	{ID: "a", Name: "a cache must", Area: "One", Kind: "required", Counted: true, Symbol: "✅"},
	{ID: "b", Name: "a | b", Area: "One", Kind: "required", Counted: true, Symbol: "⛔️", Message: "Assertion: no"},
	{ID: "c", Area: "One", Kind: "optimal", Counted: true, Symbol: "⚠️"},
	{ID: "d", Area: "Two", Kind: "optimal", Counted: true, Symbol: "⚪️"},
	{ID: "e", Area: "Two", Kind: "check", Counted: true, Symbol: "Y"},
	{ID: "f", Area: "Three", Kind: "required", Symbol: "✅"},
}}

func TestCountsAreThoseOfTheSuite(t *testing.T) {
	for kind, want := range map[string][2]int{"required": {1, 2}, "optimal": {0, 2}, "check": {1, 1}} {
		passed, total := sampleRun.count("", kind)
		if got := [2]int{passed, total}; got != want {
			t.Errorf("%s: %v, want %v", kind, got, want)
		}
	}
	if passed, total := sampleRun.count("Three", "required"); passed != 1 || total != 1 {
		t.Errorf("an uncounted area has %d/%d, want 1/1", passed, total)
	}
}

func TestEverySymbolHasAVerdict(t *testing.T) {
	seen := make(map[Verdict]bool)
	for _, v := range symbols {
		seen[v] = true
	}
	for v := Passed; v < numVerdicts; v++ {
		if !seen[v] {
			t.Errorf("no symbol means %v", v)
		}
	}
	run := results{tests: []result{{ID: "x", Counted: true, Kind: "required", Symbol: "?"}}}
	if err := run.broken(nil); err == nil {
		t.Error("an unknown symbol is not reported")
	}
	if err := run.broken(deviations{"x": "known"}); err != nil {
		t.Errorf("a known deviation is reported: %v", err)
	}
}

func TestBaselineReportsWhatIsLost(t *testing.T) {
	file := filepath.Join(t.TempDir(), "baseline.json")
	if err := compareBaseline(file, sampleRun); err != nil {
		t.Errorf("without a file: %v", err)
	}
	if err := writeBaseline(file, sampleRun); err != nil {
		t.Fatal(err)
	}
	if err := compareBaseline(file, sampleRun); err != nil {
		t.Errorf("against itself: %v", err)
	}
	worse := results{tests: append([]result(nil), sampleRun.tests[1:5]...)}
	worse.tests = append(worse.tests, result{ID: "f", Kind: "required", Symbol: "⛔️"})
	err := compareBaseline(file, worse)
	if err == nil || !strings.Contains(err.Error(), "2 tests") || !strings.Contains(err.Error(), "a, f") {
		t.Errorf("error %v, want a and f to be reported", err)
	}
}

func TestRunsThatDifferAreFound(t *testing.T) {
	other := results{tests: append([]result(nil), sampleRun.tests...)}
	other.tests[2].Symbol = "✅"
	if diff := cmp.Diff([]string{"c"}, sampleRun.differs(other)); diff != "" {
		t.Error(diff)
	}
	if got := sampleRun.differs(sampleRun); got != nil {
		t.Errorf("a run differs from itself in %v", got)
	}
}

func TestPageHasAreasAndReasons(t *testing.T) {
	dir := t.TempDir()
	extra, page := filepath.Join(dir, "extra.yaml"), filepath.Join(dir, "docs", "page.md")
	if err := os.WriteFile(extra, []byte("rules: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writePage(page, extra, sampleRun, deviations{"b": "harm named"}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| required | 1 | 2 |", "| One | 1/2 | 0/1 |  |", "| Three ¹ | 1/1 |", `| a \| b | harm named |`, "| `d` | optimal | dependency failure |",
		"rules: []",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("page lacks %q:\n%s", want, text)
		}
	}
}
