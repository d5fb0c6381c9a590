package fill

import (
	"context"
	"runtime"
	"slices"
	"strconv"
	"sync"
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

// compare runs ours and theirs in turns, a slice each, and reports the medians and their ratio: on a machine with other work to do, what one
// slice has to suffer the next of the other kind suffers too.
func compare(b *testing.B, perSlice int, ours, theirs func()) {
	var o, s []float64
	for b.Loop() {
		o = append(o, nanos(perSlice, ours))
		s = append(s, nanos(perSlice, theirs))
	}
	slices.Sort(o)
	slices.Sort(s)
	mo, ms := o[len(o)/2], s[len(s)/2]
	b.ReportMetric(mo, "fill-ns")
	b.ReportMetric(ms, "singleflight-ns")
	b.ReportMetric(ms/mo, "times-singleflight")
	b.ReportMetric(0, "ns/op")
}

func nanos(n int, f func()) float64 {
	began := time.Now()
	f()
	return float64(time.Since(began)) / float64(n)
}

func BenchmarkUncontended(b *testing.B) {
	const n = 500
	k := benchKeys(1)[0]
	tab := New(Options{})
	defer tab.Close(context.Background())
	var g singleflight.Group
	compare(b, n, func() {
		for range n {
			take(tab, k)
		}
	}, func() {
		for range n {
			_, _, _ = g.Do(k.ID, nothing)
		}
	})
}

// eight runs op in 8 goroutines, n times each, on 1,000 keys.
func eight(keys []Key, n int, op func(Key)) {
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range n {
				op(keys[(g*125+i)%len(keys)])
			}
		})
	}
	wg.Wait()
}

func BenchmarkEightOnThousand(b *testing.B) {
	const n = 2000
	keys := benchKeys(1000)
	tab := New(Options{})
	defer tab.Close(context.Background())
	var g singleflight.Group
	compare(b, 8*n,
		func() { eight(keys, n, func(k Key) { take(tab, k) }) },
		func() { eight(keys, n, func(k Key) { _, _, _ = g.Do(k.ID, nothing) }) })
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkHold holds n keys and takes 1,000 more: the bytes for each that is held, the time for each that is taken.
func BenchmarkHold(b *testing.B) {
	const more = 1000
	for _, n := range []int{1_000, 1_000_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			keys := benchKeys(n + more)
			tab := New(Options{Tenure: time.Hour})
			defer tab.Close(context.Background())
			before := heapInUse()
			acquireAll(b, tab, keys[:n])
			perKey := float64(heapInUse()-before) / float64(n)
			var took []float64
			for b.Loop() {
				var leases []*Lease
				took = append(took, nanos(more, func() { leases = acquireAll(b, tab, keys[n:]) }))
				for _, l := range leases {
					l.Settle(Outcome{Kind: Stored})
				}
			}
			slices.Sort(took)
			b.ReportMetric(perKey, "B/key")
			b.ReportMetric(took[len(took)/2], "acquire-ns")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func acquireAll(b *testing.B, tab *Table, keys []Key) []*Lease {
	leases := make([]*Lease, 0, len(keys))
	for _, k := range keys {
		l, err := tab.TryAcquire(k)
		if err != nil {
			b.Fatal(err)
		}
		leases = append(leases, l)
	}
	return leases
}

// BenchmarkCrowd settles a lease with 10,000 waiters: from the settle until the last of them has returned from Wait.
func BenchmarkCrowd(b *testing.B) {
	const waiters = 10_000
	k := benchKeys(1)[0]
	tab := New(Options{})
	defer tab.Close(context.Background())
	var longest time.Duration
	for b.Loop() {
		l, err := tab.TryAcquire(k)
		if err != nil {
			b.Fatal(err)
		}
		var wg sync.WaitGroup
		for range waiters {
			_, w, _ := tab.Join(k)
			wg.Go(func() { _, _ = w.Wait(b.Context(), time.Minute) })
		}
		runtime.Gosched()
		began := time.Now()
		l.Settle(Outcome{Kind: Stored})
		wg.Wait()
		longest = max(longest, time.Since(began))
	}
	b.ReportMetric(float64(longest)/1e6, "longest-ms")
	b.ReportMetric(0, "ns/op")
}
