package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// lookupRow is a Go benchmark of what a hit takes from its request's head to the head of its answer, without system calls.
type lookupRow struct {
	title, pkg, bench string
	// most is what it may take in nanoseconds, 0 for no target.
	most float64
	// than is the benchmark of the same package that it may take ratio times as long as, empty for none.
	than  string
	ratio float64
}

const (
	fewKeys  = "HitAmong/keys=1000/read=1000"
	hotKeys  = "HitAmong/keys=1000000/read=1000"
	manyKeys = "HitAmong/keys=1000000/read=1000000"
)

var lookupRows = []lookupRow{
	{title: "fresh hit", pkg: "internal/server", bench: "Hit/plain", most: 400},
	{title: "304 to a matching If-None-Match", pkg: "internal/server", bench: "Hit/304", most: 400},
	{title: "stale hit while its refresh runs", pkg: "internal/server", bench: "Hit/stale", most: 400},
	{title: "hit with a browser's fields", pkg: "internal/server", bench: "Hit/browser"},
	{title: "hit with Vary", pkg: "internal/server", bench: "Hit/vary"},
	{title: "a thousand paths, among a thousand keys", pkg: "cache", bench: fewKeys},
	{title: "a thousand paths, among a million keys", pkg: "cache", bench: hotKeys, than: fewKeys, ratio: 1.5},
	{title: "a million paths at random, among a million keys", pkg: "cache", bench: manyKeys},
}

// lookup runs the benchmarks of look-ups, keeps what they say, and writes the page anew.
func lookup(ctx context.Context, here string) error {
	root := filepath.Join(here, "..", "..")
	var out bytes.Buffer
	for range lookupRounds {
		for _, run := range [][2]string{{"./internal/server", "BenchmarkHit$"}, {"./cache", "BenchmarkHitAmong"}} {
			if err := goBenchmarks(ctx, root, &out, run[1], "500ms", 1, run[0]); err != nil {
				return err
			}
		}
	}
	lines := benchmarkLines(out.Bytes())
	if err := os.WriteFile(filepath.Join(here, lookupFile), lines, 0o644); err != nil {
		return err
	}
	fmt.Print(lookupTable(lines))
	return rewrite(here)
}

const (
	// lookupRounds is how often each is run; the page has the medians.
	lookupRounds = 7
	lookupFile   = "lookup.txt"
)

// lookups is the page's part about look-ups, empty if they were never run.
func lookups(here string) (string, error) {
	lines, err := os.ReadFile(filepath.Join(here, lookupFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return lookupTable(lines), err
}

func lookupTable(lines []byte) string {
	var b strings.Builder
	b.WriteString("## Look-ups\n\nWhat a hit takes between its system calls: from the request's head to the head of its answer. Go benchmarks, `go run ./integration/bench lookup`;\n" +
		fmt.Sprintf("medians of %d runs of half a second. Those among a thousand or a million keys begin behind the head's parsing; `memory.huge_pages` is on for them.\n\n", lookupRounds) +
		"| look-up | time | allocations | target | |\n| --- | --- | --- | --- | --- |\n")
	for _, row := range lookupRows {
		took, allocations, ok := row.find(lines, row.bench)
		if !ok {
			continue
		}
		wanted, verdict := row.judge(lines, took)
		fmt.Fprintf(&b, "| %s | %.0f ns | %.0f | %s | %s |\n", row.title, took, allocations, wanted, verdict)
	}
	return b.String() + "\n"
}

func (row lookupRow) judge(lines []byte, took float64) (wanted, verdict string) {
	say := func(reached bool) string {
		if reached {
			return "reached"
		}
		return "**missed**"
	}
	if row.most > 0 {
		return fmt.Sprintf("< %.0f ns", row.most), say(took < row.most)
	}
	if other, _, ok := row.find(lines, row.than); ok {
		return fmt.Sprintf("≤ %.1f × among a thousand", row.ratio), fmt.Sprintf("%.2f ×, %s", took/other, say(took <= row.ratio*other))
	}
	return "—", ""
}

var benchmarkLine = regexp.MustCompile(`^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(\S+) ns/op.*?(\d+) allocs/op`)

// find is the median time of a benchmark in nanoseconds and its allocations.
func (row lookupRow) find(lines []byte, bench string) (took, allocations float64, ok bool) {
	var times, counts []float64
	pkg := ""
	for line := range strings.Lines(string(lines)) {
		if name, is := strings.CutPrefix(line, "pkg: "); is {
			pkg = strings.TrimSpace(name)
		}
		m := benchmarkLine.FindStringSubmatch(line)
		if m == nil || m[1] != bench || !strings.HasSuffix(pkg, "/"+row.pkg) {
			continue
		}
		t, err1 := strconv.ParseFloat(m[2], 64)
		n, err2 := strconv.ParseFloat(m[3], 64)
		if firstOf(err1, err2) == nil {
			times, counts = append(times, t), append(counts, n)
		}
	}
	if len(times) == 0 {
		return 0, 0, false
	}
	return median(times), median(counts), true
}
