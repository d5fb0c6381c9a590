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

// BenchmarkStore is what the store itself costs for a record of 1 KiB among 100,000 and more, without eviction: from Put until it is
// committed. Making the records does not count. New keys are those of misses; those of "again" are stored already with the same body, as
// after a refresh.
func BenchmarkStore(b *testing.B) {
	for _, name := range []string{"new", "again"} {
		b.Run(name, func(b *testing.B) { benchmarkStore(b, name == "again") })
	}
}

func benchmarkStore(b *testing.B, again bool) {
	s, err := Open(Options{Path: b.TempDir(), Max: 8 << 30, Queue: 64 << 20})
	if err != nil {
		b.Fatal(err)
	}
	defer shut(b, s)
	body := cache.MemoryBody(cachetest.Content("body", 1, 1024))
	token := uint64(0)
	record := func(n uint64) *cache.Record {
		token++
		r := cachetest.Record(fmt.Sprintf("default\x00http://example.org/some/path/%x", n), token, 0)
		r.Body = body
		return r
	}
	batch := make([]*cache.Record, 4096)
	store := func(list []*cache.Record) {
		for _, r := range list {
			put(b, s, r)
		}
		flushed(b, s)
	}
	stored := uint64(0)
	refill := func() {
		for i := range batch {
			batch[i] = record(stored)
			stored++
		}
	}
	for range 25 {
		refill()
		store(batch)
	}
	random := rand.New(rand.NewPCG(1, 2))
	if again {
		refill = func() {
			for i := range batch {
				batch[i] = record(random.Uint64N(stored))
			}
		}
	}
	measureStore(b, batch, refill, store)
}

func measureStore(b *testing.B, batch []*cache.Record, refill func(), store func([]*cache.Record)) {
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
