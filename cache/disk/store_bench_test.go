//go:build unix

package disk

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/cachetest"
)

// BenchmarkStore is what the store itself costs for a record of 1 KiB with a new key, among 100,000 others and without eviction: from
// Put until it is committed. Making the records does not count.
func BenchmarkStore(b *testing.B) {
	s, err := Open(Options{Path: b.TempDir(), Max: 8 << 30, Queue: 64 << 20})
	if err != nil {
		b.Fatal(err)
	}
	defer shut(b, s)
	random := rand.New(rand.NewPCG(1, 2))
	batch := make([]*cache.Record, 4096)
	token := uint64(0)
	refill := func() {
		for i := range batch {
			token++
			batch[i] = cachetest.Record(fmt.Sprintf("default\x00http://example.org/some/path/%x", random.Uint64()), token, 1024)
		}
	}
	store := func(list []*cache.Record) {
		for _, r := range list {
			put(b, s, r)
		}
		flushed(b, s)
	}
	for range 25 {
		refill()
		store(batch)
	}
	b.ReportAllocs()
	b.ResetTimer()
	cpu := int64(0)
	for n := b.N; n > 0; n -= len(batch) {
		b.StopTimer()
		refill()
		runtime.GC() // so that what the records left behind is not collected on the store's account
		cpu -= cpuTime(b)
		b.StartTimer()
		store(batch[:min(n, len(batch))])
		b.StopTimer()
		cpu += cpuTime(b)
		b.StartTimer()
	}
	b.ReportMetric(float64(cpu)/float64(b.N), "cpu-ns/op")
}

// cpuTime is what the process has used so far, in nanoseconds, the system's part included.
func cpuTime(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
