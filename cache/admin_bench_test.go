package cache_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/disk"
	"github.com/swrproxy/swrproxy/cache/memory"
	"github.com/swrproxy/swrproxy/cache/tiered"
)

// BenchmarkReadsDuringSoftPurge reads 100,000 records of 1 KiB with one tag at 2,000 requests a second: for a while before they are
// purged softly, for as long while and after they are. Each round is a pair of its own, with all records fresh at its beginning. It reports the
// medians of the 99th percentiles and of their ratios, and how long a purge took. Reads that start no refresh and those that do count
// alike. Run it with -benchtime 5x or so.
func BenchmarkReadsDuringSoftPurge(b *testing.B) {
	b.Run("memory", func(b *testing.B) {
		benchmarkSoftPurge(b, func(b *testing.B) cache.Store { return crowdMemory(b) })
	})
	b.Run("tiered", func(b *testing.B) {
		benchmarkSoftPurge(b, func(b *testing.B) cache.Store {
			dsk, err := disk.Open(disk.Options{Path: b.TempDir(), Max: 2 << 30})
			if err != nil {
				b.Fatal(err)
			}
			return tiered.New(crowdMemory(b), dsk)
		})
	})
}

func crowdMemory(b *testing.B) *memory.Store {
	b.Helper()
	store, err := memory.New(memory.Options{Max: 512 << 20})
	if err != nil {
		b.Fatal(err)
	}
	return store
}

func benchmarkSoftPurge(b *testing.B, open func(*testing.B) cache.Store) {
	const records, span = 100_000, 4 * time.Second
	store := open(b)
	c, err := cache.New(cache.Config{Store: store})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close(context.Background())
	o := &loadedOrigin{body: strings.Repeat("x", 1024)}
	h := c.Proxy(&script{do: o.answer})
	var before, during, ratio, took []float64
	for b.Loop() {
		crowdFresh(b, c, h, o, records, store)
		base := paced(h, records, span)
		o.begin(20 * time.Millisecond)
		purged := make(chan time.Duration)
		go func() {
			start := time.Now()
			if _, err := c.Purge(context.Background(), cache.Selector{Tags: []string{"crowd"}}, cache.PurgeOptions{Soft: true}); err != nil {
				b.Error(err)
			}
			purged <- time.Since(start)
		}()
		load := paced(h, records, span)
		before, during = append(before, float64(base.Nanoseconds())/1e3), append(during, float64(load.Nanoseconds())/1e3)
		ratio, took = append(ratio, float64(load)/float64(base)), append(took, (<-purged).Seconds())
	}
	b.ReportMetric(median(before), "p99-before-µs")
	b.ReportMetric(median(during), "p99-during-µs")
	b.ReportMetric(median(ratio), "ratio")
	b.ReportMetric(median(took), "purge-s")
	b.ReportMetric(float64(o.most.Load()), "fills-at-once")
}

// crowdFresh stores all records anew and waits until nothing is left to do for them.
func crowdFresh(b *testing.B, c *cache.Cache, h http.Handler, o *loadedOrigin, records int, store cache.Store) {
	b.Helper()
	o.begin(0)
	if _, err := c.Purge(b.Context(), cache.Selector{All: true}, cache.PurgeOptions{}); err != nil {
		b.Fatal(err)
	}
	w := &discard{h: make(http.Header)}
	for i := range records {
		readCrowd(h, w, i)
		if i%5000 == 0 {
			syncCrowd(b, store)
		}
	}
	syncCrowd(b, store)
}

func syncCrowd(b *testing.B, store cache.Store) {
	b.Helper()
	if err := store.(cache.Syncer).Sync(b.Context()); err != nil {
		b.Fatal(err)
	}
}

func readCrowd(h http.Handler, w *discard, i int) {
	clear(w.h)
	u := url.URL{Path: fmt.Sprint("/crowd/", i)}
	h.ServeHTTP(w, &http.Request{
		Method: http.MethodGet, URL: &u, Host: "example.org", RequestURI: u.Path, Header: http.Header{}, Body: http.NoBody,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	})
}

// paced reads records at random, 2,000 a second, and returns the 99th percentile of the times that reads took.
func paced(h http.Handler, records int, span time.Duration) time.Duration {
	const gap = 500 * time.Microsecond
	w := &discard{h: make(http.Header)}
	var took []time.Duration
	for next, end := time.Now(), time.Now().Add(span); next.Before(end); next = next.Add(gap) {
		time.Sleep(time.Until(next))
		i := rand.IntN(records)
		start := time.Now()
		readCrowd(h, w, i)
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}
