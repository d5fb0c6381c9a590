package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// baseline is what passed when it was last accepted.
type baseline struct {
	Edition string   `json:"edition"`
	Passed  []string `json:"passed"`
}

// writeBaseline accepts the tests that pass now. Observing tests have no right answer and are left out.
func writeBaseline(file string, r results) error {
	b := baseline{Edition: edition, Passed: r.ids(func(t result) bool { return t.verdict() == Passed })}
	slices.Sort(b.Passed)
	text, err := json.MarshalIndent(b, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// compareBaseline fails if a test of the baseline does not pass any more. Without a file there is nothing to compare.
func compareBaseline(file string, r results) error {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var b baseline
	if err := json.Unmarshal(text, &b); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	if lost := b.lost(r); len(lost) > 0 {
		return fmt.Errorf("%d tests passed before and do not now: %s", len(lost), strings.Join(lost, ", "))
	}
	return nil
}

// lost returns the baseline's tests that did not pass, those that were not run included.
func (b baseline) lost(r results) []string {
	var lost []string
	for _, id := range b.Passed {
		if !slices.ContainsFunc(r.tests, func(t result) bool { return t.ID == id && t.passed() }) {
			lost = append(lost, id)
		}
	}
	return lost
}
