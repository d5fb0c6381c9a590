package disk

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/cachetest"
)

// filled opens a store of n records of 100 bytes, each with one tag that a hundred of them share.
func filled(b *testing.B, n int) *Store {
	b.Helper()
	s, err := Open(Options{Path: b.TempDir(), Max: 8 << 30, Queue: 64 << 20})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { shut(b, s) })
	body := cache.MemoryBody(cachetest.Content("body", 1, 100))
	for i := range n {
		put(b, s, scattered(i, n, body))
		if i%8192 == 0 {
			flushed(b, s)
		}
	}
	flushed(b, s)
	return s
}

// scattered makes the ith of n records; those that share a tag lie far apart.
func scattered(i, n int, body cache.Body) *cache.Record {
	r := cachetest.Record(fmt.Sprintf("default\x00http://example.org/some/path/%x", i), uint64(i+1), 0)
	r.Body, r.Tags = body, []string{fmt.Sprint("tag/", i%(n/100))}
	return r
}

// BenchmarkDeleteSync is what the purge of one URL waits for: its record is deleted, and that is durable.
func BenchmarkDeleteSync(b *testing.B) {
	for _, n := range []int{10_000, 1_000_000} {
		s := filled(b, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			random := rand.New(rand.NewPCG(rand.Uint64(), 2))
			var took []time.Duration
			for b.Loop() {
				key := scattered(random.IntN(n), n, cache.MemoryBody(nil)).Key
				start := time.Now()
				s.Delete(key, 1<<40)
				flushed(b, s)
				took = append(took, time.Since(start))
			}
			reportTimes(b, took)
		})
	}
}

// BenchmarkDeleteSyncMany has a thousand callers a second delete a record each and wait until that is durable.
func BenchmarkDeleteSyncMany(b *testing.B) {
	const n, rate = 100_000, 1000
	s := filled(b, n)
	b.Run(fmt.Sprint(n), func(b *testing.B) {
		random := rand.New(rand.NewPCG(rand.Uint64(), 2))
		var mu sync.Mutex
		var took []time.Duration
		var wg sync.WaitGroup
		commits := s.Metrics().Commits
		tick := time.NewTicker(time.Second / rate)
		defer tick.Stop()
		for b.Loop() {
			<-tick.C
			key := scattered(random.IntN(n), n, cache.MemoryBody(nil)).Key
			wg.Go(func() {
				start := time.Now()
				s.Delete(key, 1<<40)
				if err := s.Sync(context.Background()); err != nil {
					b.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				took = append(took, time.Since(start))
			})
		}
		wg.Wait()
		reportTimes(b, took)
		b.ReportMetric(float64(s.Metrics().Commits-commits)/float64(len(took)), "commits/op")
	})
}

// BenchmarkFind finds a hundred records among a million.
func BenchmarkFind(b *testing.B) {
	const n = 1_000_000
	s := filled(b, n)
	finder, ok := any(s).(interface {
		Find(string, func(*cache.Record) bool)
	})
	if !ok {
		b.Skip("not a Finder")
	}
	b.Run(fmt.Sprint(n), func(b *testing.B) {
		b.ReportAllocs()
		random := rand.New(rand.NewPCG(rand.Uint64(), 2))
		var took []time.Duration
		for b.Loop() {
			found := 0
			start := time.Now()
			finder.Find(fmt.Sprint("tag/", random.IntN(n/100)), func(*cache.Record) bool { found++; return true })
			took = append(took, time.Since(start))
			if found != 100 {
				b.Fatalf("found %d", found)
			}
		}
		reportTimes(b, took)
	})
}

func reportTimes(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "median-us")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
}
