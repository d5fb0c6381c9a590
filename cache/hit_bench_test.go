package cache_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/memory"
	"github.com/swrproxy/swrproxy/internal/hugepages"
	"github.com/swrproxy/swrproxy/policy"
)

// BenchmarkHitAmong is the hit path from a request's parts to the head of its answer, with few records in memory and with many: a thousand of them asked for
// over and over, and all in random order, for each of which the processor has to wait for its memory.
func BenchmarkHitAmong(b *testing.B) {
	const few = 1000
	hugepages.Advise(hitBudget / 4 * 5) // as the proxy does with memory.huge_pages
	for _, n := range []int{few, 1_000_000} {
		c := hitCache(b, n)
		order := rand.New(rand.NewPCG(1, 2)).Perm(n)
		targets := make([][]byte, n)
		for i := range targets {
			targets[i] = []byte(benchPath(order[i]))
		}
		rest()
		for _, read := range slices.Compact([]int{few, n}) {
			b.Run(fmt.Sprintf("keys=%d/read=%d", n, read), func(b *testing.B) {
				q := cache.HitRequest{Method: http.MethodGet, Host: []byte("example.org"), At: time.Now()}
				var a cache.HitAnswer
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					q.Target, a.Head = targets[i%read], a.Head[:0]
					if !c.Hit(&q, &a) {
						b.Fatal("no hit")
					}
				}
			})
		}
	}
}

// hitBudget is for a million records and more.
const hitBudget = 4 << 30

func benchPath(i int) string { return fmt.Sprint("/objects/", i) }

// hitCache is a cache with n records in memory.
func hitCache(b *testing.B, n int) *cache.Cache {
	b.Helper()
	c, store := benchStore(b, hitBudget)
	now, body := time.Now().UTC(), make([]byte, 1024)
	key := hitKey(b, c, store)
	for i := range n {
		store.Put(&cache.Record{
			Key: key + benchPath(i), Primary: key + benchPath(i), Token: uint64(i), StoredAt: now, Status: http.StatusOK,
			Fields: cache.NewFields(http.Header{
				"Cache-Control": {"max-age=600"}, "Content-Type": {"text/html"}, "Date": {now.Format(http.TimeFormat)}, "Etag": {`"x"`},
			}),
			Body: cache.MemoryBody(body),
			Life: policy.Life{BornAt: now, FreshFor: time.Hour, Flags: policy.Explicit},
		})
	}
	if err := store.Sync(b.Context()); err != nil {
		b.Fatal(err)
	}
	return c
}

// hitKey is the key of a path of example.org without the path.
func hitKey(b *testing.B, c *cache.Cache, store *memory.Store) (key string) {
	b.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://example.org/probe", nil)
	c.Proxy(instant("body")).ServeHTTP(&discard{h: make(http.Header)}, r)
	store.Walk(func(rec *cache.Record) bool {
		key = strings.TrimSuffix(rec.Key, "/probe")
		return false
	})
	return key
}

// rest waits until nothing is going on in the background, and collects what that has left: not while hits are measured.
func rest() {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	for before := uint64(0); ; before = sample[0].Value.Uint64() {
		time.Sleep(50 * time.Millisecond)
		if metrics.Read(sample); sample[0].Value.Uint64() == before {
			break
		}
	}
	runtime.GC()
}
