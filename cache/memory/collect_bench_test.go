package memory

import (
	"runtime"
	"runtime/metrics"
	"testing"
)

// BenchmarkCollect makes the collector look at half a million records of 1 KiB, stored in random order of their keys, and tells what that takes of
// CPU for each.
func BenchmarkCollect(b *testing.B) {
	const n = 500_000
	s := open(b, 2<<30)
	for i := range n {
		s.Put(plain(i))
	}
	settleAll(s)
	runtime.GC()
	before, rounds := markSeconds(), 0
	for b.Loop() {
		runtime.GC()
		rounds++
	}
	b.ReportMetric((markSeconds()-before)*1e9/float64(rounds)/n, "mark-ns/record")
}

func markSeconds() (sum float64) {
	samples := []metrics.Sample{
		{Name: "/cpu/classes/gc/mark/assist:cpu-seconds"}, {Name: "/cpu/classes/gc/mark/dedicated:cpu-seconds"}, {Name: "/cpu/classes/gc/mark/idle:cpu-seconds"},
	}
	metrics.Read(samples)
	for _, s := range samples {
		sum += s.Value.Float64()
	}
	return sum
}
