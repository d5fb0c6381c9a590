package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// judgeJS asks the suite's own code for its verdicts.
//
//go:embed judge.mjs
var judgeJS []byte

// result is one test.
type result struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Area string `json:"area"`
	// Kind is required, optimal or check.
	Kind string `json:"kind"`
	// Counted is false for tests that the suite runs but does not count.
	Counted bool `json:"counted"`
	// Symbol is the suite's verdict, Message what it said of a failure.
	Symbol  string `json:"symbol"`
	Message string `json:"message"`
}

func (r result) verdict() Verdict { return symbols[r.Symbol] }

func (r result) passed() bool { return r.verdict() == Passed || r.verdict() == Yes }

// results are all tests of a run in the suite's order.
type results struct {
	tests []result
}

// judgeAll lets the suite judge what its client printed.
func (s suite) judgeAll(ctx context.Context, dir string, raw []byte) (results, error) {
	script, file := filepath.Join(dir, "judge.mjs"), filepath.Join(dir, "results.json")
	if err := errors.Join(os.WriteFile(script, judgeJS, 0o644), os.WriteFile(file, raw, 0o644)); err != nil {
		return results{}, err
	}
	cmd := exec.CommandContext(ctx, "node", "--no-warnings", script, s.root, s.judge, file)
	cmd.Dir = s.root
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return results{}, fmt.Errorf("judge results: %w", err)
	}
	var r results
	if err := json.Unmarshal(out, &r.tests); err != nil {
		return results{}, fmt.Errorf("judge results: %w", err)
	}
	if len(r.tests) == 0 {
		return results{}, errors.New("judge results: the suite knows none of its own results")
	}
	return r, nil
}

// count returns how many counted tests of a kind there are and how many of them passed, in one area or, for "", in all.
func (r results) count(area, kind string) (passed, total int) {
	for _, t := range r.tests {
		if t.Kind != kind || (area == "" && !t.Counted) || (area != "" && t.Area != area) {
			continue
		}
		total++
		if t.passed() {
			passed++
		}
	}
	return passed, total
}

// ids returns the tests that keep accepts.
func (r results) ids(keep func(result) bool) []string {
	var out []string
	for _, t := range r.tests {
		if keep(t) {
			out = append(out, t.ID)
		}
	}
	return out
}

// of counts the counted tests with a verdict.
func (r results) of(v Verdict) int {
	return len(r.ids(func(t result) bool { return t.Counted && t.verdict() == v }))
}

// differs returns the tests whose verdicts are not the same in two runs.
func (r results) differs(other results) []string {
	was := make(map[string]Verdict, len(other.tests))
	for _, t := range other.tests {
		was[t.ID] = t.verdict()
	}
	return r.ids(func(t result) bool { return was[t.ID] != t.verdict() })
}

// broken reports runs that say nothing about some required or optimal test: setup failures, retries, failures of the suite itself. A
// test that is known to end like that is no news.
func (r results) broken(devs deviations) error {
	bad := r.ids(func(t result) bool {
		v := t.verdict()
		_, known := devs[t.ID]
		return t.Counted && t.Kind != "check" && !known && (v == SetupFailed || v == Retried || v == HarnessFailed || v == Unknown)
	})
	if len(bad) > 0 {
		return fmt.Errorf("%d tests could not be run to their point: %s", len(bad), strings.Join(bad, ", "))
	}
	return nil
}

// print writes the summary and the failing tests.
func (r results) print(w io.Writer, devs deviations) {
	for _, kind := range []string{"required", "optimal", "check"} {
		passed, total := r.count("", kind)
		fmt.Fprintf(w, "%-9s %3d/%d\n", kind, passed, total)
	}
	fmt.Fprintf(w, "setup failures %d, dependency failures %d, retries %d, failures of the suite %d\n",
		r.of(SetupFailed), r.of(DependencyFailed), r.of(Retried), r.of(HarnessFailed))
	for _, t := range r.tests {
		if t.Kind == "check" || t.passed() {
			continue
		}
		note := ""
		if !t.Counted {
			note = " (not counted)"
		}
		if why, ok := devs[t.ID]; ok {
			note += " (known: " + why + ")"
		}
		fmt.Fprintf(w, "%s %s: %s: %s%s\n", t.Kind, t.verdict(), t.ID, t.Message, note)
	}
}
