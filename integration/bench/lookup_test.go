package main

import (
	"strings"
	"testing"
)

// The page has medians of the right package's benchmark, and judges by them.
func TestLookupTable(t *testing.T) {
	lines := `goos: linux
pkg: example.org/x/cache
BenchmarkHit/plain-2 	 1	 9 ns/op	 0 B/op	 0 allocs/op
BenchmarkHitAmong/keys=1000/read=1000-2 	 1	 200 ns/op	 0 B/op	 0 allocs/op
BenchmarkHitAmong/keys=1000000/read=1000-2 	 1	 302 ns/op	 0 B/op	 0 allocs/op
pkg: example.org/x/internal/server
BenchmarkHit/plain-2 	 1	 300.5 ns/op	 0 B/op	 0 allocs/op
BenchmarkHit/plain-2 	 1	 100 ns/op	 8 B/op	 2 allocs/op
BenchmarkHit/plain-2 	 1	 350 ns/op	 0 B/op	 0 allocs/op
BenchmarkHit/304 	 1	 400 ns/op	 0 B/op	 0 allocs/op
`
	got := lookupTable([]byte(lines))
	for _, want := range []string{
		"| fresh hit | 300 ns | 0 | < 400 ns | reached |\n",
		"| 304 to a matching If-None-Match | 400 ns | 0 | < 400 ns | **missed** |\n",
		"| 302 ns | 0 | ≤ 1.5 × among a thousand | 1.51 ×, **missed** |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no line %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "stale") {
		t.Errorf("a benchmark that did not run is in\n%s", got)
	}
}
