package cache_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/memory"
)

// BenchmarkReadsDuringSoftPurge reads 100,000 records with one tag at 2,000 requests a second, before, and while and after they are purged softly.
// It reports the 99th percentile of both, in microseconds, and how long the purge took.
func BenchmarkReadsDuringSoftPurge(b *testing.B) {
	const records, span = 100_000, 2 * time.Second
	store, err := memory.New(memory.Options{Max: 512 << 20})
	if err != nil {
		b.Fatal(err)
	}
	c, err := cache.New(cache.Config{Store: store})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close(context.Background())
	o := &loadedOrigin{seen: make(map[string]int)}
	s := &script{do: o.answer}
	h := c.Proxy(s)
	for i := range records {
		readOnce(h, i)
	}
	o.begin(20 * time.Millisecond)
	for b.Loop() {
		before := paced(h, records, span)
		took := make(chan time.Duration)
		go func() {
			start := time.Now()
			if _, err := c.Purge(context.Background(), cache.Selector{Tags: []string{"crowd"}}, cache.PurgeOptions{Soft: true}); err != nil {
				b.Error(err)
			}
			took <- time.Since(start)
		}()
		during := paced(h, records, span)
		b.ReportMetric(float64(before.Microseconds()), "p99-before-µs")
		b.ReportMetric(float64(during.Microseconds()), "p99-during-µs")
		b.ReportMetric((<-took).Seconds(), "purge-s")
		b.ReportMetric(float64(o.most.Load()), "fills-at-once")
	}
}

func readOnce(h http.Handler, i int) {
	r := httptest.NewRequest("GET", fmt.Sprint("http://example.org/crowd/", i), nil)
	h.ServeHTTP(httptest.NewRecorder(), r)
}

// paced reads records at random, 2,000 a second, and returns the 99th percentile of the times that reads took.
func paced(h http.Handler, records int, span time.Duration) time.Duration {
	const gap = 500 * time.Microsecond
	var took []time.Duration
	for next, end := time.Now(), time.Now().Add(span); next.Before(end); next = next.Add(gap) {
		time.Sleep(time.Until(next))
		i := rand.IntN(records)
		start := time.Now()
		readOnce(h, i)
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}
