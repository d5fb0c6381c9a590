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
// committed. Making the records does not count. New keys are those of misses; those of "again" are stored already with the same body and
// tags, as after a refresh. A tag is shared by a hundred records.
func BenchmarkStore(b *testing.B) {
	for _, name := range []string{"new", "again"} {
		for _, tags := range []int{0, 1, 5} {
			b.Run(fmt.Sprintf("%s/tags=%d", name, tags), func(b *testing.B) { benchmarkStore(b, tags, 4096, name == "again") })
		}
	}
}

// BenchmarkStoreFew is BenchmarkStore with 100 records to a transaction.
func BenchmarkStoreFew(b *testing.B) {
	for _, tags := range []int{0, 1, 5} {
		b.Run(fmt.Sprintf("tags=%d", tags), func(b *testing.B) { benchmarkStore(b, tags, 100, false) })
	}
}

func benchmarkStore(b *testing.B, tags, size int, again bool) {
	s, err := Open(Options{Path: b.TempDir(), Max: 8 << 30, Queue: 64 << 20})
	if err != nil {
		b.Fatal(err)
	}
	defer shut(b, s)
	body := cache.MemoryBody(cachetest.Content("body", 1, 1024))
	token := uint64(0)
	record := func(n uint64) *cache.Record {
		token++
		return benchRecord(n, token, tags, body)
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
	batch = batch[:size]
	before := written(s)
	measureStore(b, batch, refill, store)
	b.ReportMetric(float64(written(s)-before)/float64(b.N), "written-B/op")
}

// benchRecord makes record n, with tags that a hundred records share.
func benchRecord(n, token uint64, tags int, body cache.Body) *cache.Record {
	r := cachetest.Record(fmt.Sprintf("default\x00http://example.org/some/path/%x", n), token, 0)
	r.Body, r.Tags = body, nil
	for i := range tags {
		r.Tags = append(r.Tags, fmt.Sprintf("tag/%d/%x", i, n/100))
	}
	return r
}

// written is how many bytes of pages transactions have written.
func written(s *Store) int64 {
	st := s.db.Stats().TxStats
	return st.GetPageAlloc()
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
