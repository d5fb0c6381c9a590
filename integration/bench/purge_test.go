package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The table has medians, ratios by round, and judges both stores by their own targets.
func TestPurgeTable(t *testing.T) {
	r := &purgeResults{Rounds: 3, Stores: map[string]map[string][]float64{
		inMemory: {
			"url-10000": {0.1, 0.2, 0.3}, "url-1000000": {0.1, 0.3, 0.9}, "stream-unanswered": {0, 0, 0},
			"heap-tag": {200, 300}, "heap-none": {100, 200}, "others, single": {0.1, 0.25},
		},
		withDisk: {"url-1000000": {11}, "stream-unanswered": {0.5}},
	}}
	got := purgeTable(r)
	for _, want := range []string{
		"| purge of one URL among 10,000 records | 200 µs | — |  | — | — |  |\n",
		"| purge of one URL among 1,000,000 records | 300 µs | ≤ 1 ms | reached | 11 ms | ≤ 10 ms | **missed** |\n",
		"| that beside 10,000 records | 1.50 × | ≤ 1.50 × | reached | — | ≤ 1.50 × |  |\n",
		"not answered | 0 % | none | reached | 50 % | none | **missed** |\n",
		"| of it for the tag and the index | 100 bytes | ≤ 64 bytes | **missed** | — | ≤ 64 bytes |  |\n",
		"up to 25 % of a core",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// What is measured anew replaces what was, and nothing else does.
func TestPurgeResultsAreMerged(t *testing.T) {
	file := filepath.Join(t.TempDir(), "purge.json")
	for _, r := range []*purgeResults{
		{Rounds: 3, Stores: map[string]map[string][]float64{inMemory: {"a": {1, 2, 3}, "b": {4}}}},
		{Rounds: 1, Stores: map[string]map[string][]float64{inMemory: {"a": {5}}, withDisk: {"a": {6}}}},
	} {
		all, err := readPurges(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := all.merge(r).write(file); err != nil {
			t.Fatal(err)
		}
	}
	r, err := readPurges(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		store, name string
		value       float64
	}{{inMemory, "a", 5}, {inMemory, "b", 4}, {withDisk, "a", 6}} {
		if v, ok := r.figure(want.store, want.name); !ok || v != want.value {
			t.Errorf("%s of %s is %v, %v; want %v", want.name, want.store, v, ok, want.value)
		}
	}
}

// Purges are of records that are there, in both stores.
func TestPurgesReachWhatTheyMeasure(t *testing.T) {
	for _, store := range bothStores {
		w := &workshop{store: store, dir: filepath.Join(t.TempDir(), "store"), figures: map[string]float64{}}
		if err := w.single(t.Context(), 3000); err != nil {
			t.Errorf("%s: %v", store, err)
		}
		for _, name := range []string{"url-3000", "tag-3000"} {
			if w.figures[name] <= 0 {
				t.Errorf("%s: no %s in %v", store, name, w.figures)
			}
		}
		if err := w.c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// A read counts for the time at which it was due.
func TestHitterReports(t *testing.T) {
	h := &hitter{gap: time.Millisecond, took: make([]time.Duration, 200)}
	for i := range h.took {
		h.took[i] = time.Duration(1+i/100) * time.Millisecond
	}
	figures := map[string]float64{}
	h.report(figures, "first", 0, 100*time.Millisecond)
	h.report(figures, "second", 100*time.Millisecond, time.Second)
	if figures["first-p99"] != 1 || figures["second-p50"] != 2 {
		t.Errorf("%v", figures)
	}
}
