package memory

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/swrproxy/swrproxy/cache"
)

// benchKeys are the keys of n records as plain makes them, in random order: neighbours in it are not neighbours in memory.
func benchKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = plain(i).Key
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}

// BenchmarkGet reads from few records and from many: a thousand of them over and over, which tells what a look-up does, and all of them in
// random order, which tells how far the processor's caches reach: of a million each look-up waits for memory three times, for the map,
// the record and its key. The bodies are empty: their bytes are not read.
func BenchmarkGet(b *testing.B) {
	const few = 1000
	for _, n := range []int{few, 1_000_000} {
		s := open(b, 2<<30)
		for i := range n {
			r := plain(i)
			r.Body = cache.MemoryBody(nil)
			s.Put(r)
		}
		if err := s.Sync(b.Context()); err != nil {
			b.Fatal(err)
		}
		keys := benchKeys(n)
		runtime.GC() // now, not while reads are measured
		for _, read := range []int{few, n} {
			b.Run(fmt.Sprintf("keys=%d/read=%d", n, read), func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if _, ok := s.Get(keys[i%read]); !ok {
						b.Fatal("miss")
					}
				}
			})
		}
	}
}

// BenchmarkPutAlone stores records one at a time, and lets all that this starts run before the next, as a stream of misses does.
func BenchmarkPutAlone(b *testing.B) {
	s := open(b, 1<<30)
	body := cache.MemoryBody(make([]byte, 1024))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r := plain(i % 100_000)
		r.Body, r.Token = body, uint64(i)
		s.Put(r)
		for range 4 {
			runtime.Gosched()
		}
	}
}

// BenchmarkPut stores new records, in a store with room and in one that has to evict.
func BenchmarkPut(b *testing.B) {
	for name, size := range map[string]int64{"room": 4 << 30, "full": 16 << 20} {
		b.Run(name, func(b *testing.B) {
			s := open(b, size)
			records := make([]*cache.Record, 100_000)
			body := cache.MemoryBody(make([]byte, 1024))
			for i := range records {
				records[i] = plain(i)
				records[i].Body = body
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				r := *records[i%len(records)]
				r.Token = uint64(i)
				s.Put(&r)
			}
			if err := s.Sync(b.Context()); err != nil {
				b.Fatal(err)
			}
		})
	}
}
