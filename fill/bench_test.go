package fill

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/singleflight"
)

func benchKeys(n int) []Key {
	keys := make([]Key, n)
	for i := range keys {
		keys[i] = Key{Space: "app", ID: "https://example.org/static/" + strconv.Itoa(i)}
	}
	return keys
}

func nothing() (any, error) { return nil, nil }

// take acquires and settles once; busy keys are passed over.
func take(tab *Table, k Key) {
	if l, err := tab.TryAcquire(k); err == nil {
		l.Settle(Outcome{Kind: Stored})
	}
}

func BenchmarkBusy(b *testing.B) {
	tab := New(Options{Tenure: time.Hour})
	defer tab.Close(context.Background())
	keys := benchKeys(1)
	if _, err := tab.TryAcquire(keys[0]); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = tab.TryAcquire(keys[0])
	}
}

func BenchmarkUncontended(b *testing.B) {
	keys := benchKeys(1)
	b.Run("fill", func(b *testing.B) {
		tab := New(Options{})
		defer tab.Close(context.Background())
		b.ReportAllocs()
		for b.Loop() {
			take(tab, keys[0])
		}
	})
	b.Run("singleflight", func(b *testing.B) {
		var g singleflight.Group
		b.ReportAllocs()
		for b.Loop() {
			_, _, _ = g.Do(keys[0].ID, nothing)
		}
	})
}

// eight runs op in 8 goroutines on 1,000 keys until b.N is used up.
func eight(b *testing.B, op func(Key)) {
	keys := benchKeys(1000)
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for g := range 8 {
		wg.Go(func() {
			for i := g * 125; left.Add(-100) >= 0; {
				for range 100 {
					op(keys[i%1000])
					i++
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkEightOnThousand(b *testing.B) {
	b.Run("fill", func(b *testing.B) {
		tab := New(Options{})
		defer tab.Close(context.Background())
		eight(b, func(k Key) { take(tab, k) })
	})
	b.Run("singleflight", func(b *testing.B) {
		var g singleflight.Group
		eight(b, func(k Key) { _, _, _ = g.Do(k.ID, nothing) })
	})
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkHold takes n keys that all stay held: time and bytes for each.
func BenchmarkHold(b *testing.B) {
	for _, n := range []int{1_000, 1_000_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			keys := benchKeys(n)
			var spent time.Duration
			var bytes uint64
			rounds := 0
			for b.Loop() {
				tab := New(Options{Tenure: time.Hour})
				before := heapInUse()
				start := time.Now()
				for _, k := range keys {
					if _, err := tab.TryAcquire(k); err != nil {
						b.Fatal(err)
					}
				}
				spent += time.Since(start)
				bytes += heapInUse() - before
				rounds++
				tab.Close(context.Background())
			}
			b.ReportMetric(float64(spent.Nanoseconds())/float64(rounds*n), "ns/acquire")
			b.ReportMetric(float64(bytes)/float64(rounds*n), "B/key")
			b.ReportMetric(0, "ns/op")
		})
	}
}
