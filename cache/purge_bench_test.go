package cache_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/disk"
	"github.com/swrproxy/swrproxy/cache/memory"
	"github.com/swrproxy/swrproxy/cache/tiered"
	"github.com/swrproxy/swrproxy/policy"
)

// purgedPerTag is how many records a tag reaches.
const purgedPerTag = 100

// BenchmarkPurge makes one purge after the other, among few records and among ten times as many: of one URL, and of one tag that 100 records have. What was
// purged is put back with the clock stopped. On disk a purge ends when it is durable.
func BenchmarkPurge(b *testing.B) {
	for _, tier := range []string{"memory", "tiered"} {
		for _, n := range []int{10_000, 100_000} {
			p := newPurgeBench(b, tier, n)
			b.Run(fmt.Sprintf("url/%s/records=%d", tier, n), func(b *testing.B) {
				p.run(b, 1, func(i int) cache.Selector { return cache.Selector{URL: "http://example.org" + benchPath(i)} })
			})
			b.Run(fmt.Sprintf("tag/%s/records=%d", tier, n), func(b *testing.B) {
				p.run(b, purgedPerTag, func(i int) cache.Selector { return cache.Selector{Tags: []string{benchTag(i)}} })
			})
		}
	}
}

func benchTag(i int) string { return fmt.Sprint("tag", i/purgedPerTag) }

// purgeBench is a cache with n records. Not safe for concurrent use.
type purgeBench struct {
	c     *cache.Cache
	store cache.Store
	key   string // of a path, without the path
	body  []byte
	token uint64 // of the record put last; far below the cache's own numbers, which begin at the clock
	n     int
	next  int // the record to purge next
}

func newPurgeBench(b *testing.B, tier string, n int) *purgeBench {
	b.Helper()
	mem, err := memory.New(memory.Options{Max: 1 << 30})
	if err != nil {
		b.Fatal(err)
	}
	p := &purgeBench{store: mem, body: make([]byte, 1024), n: n}
	if tier == "tiered" {
		dsk, err := disk.Open(disk.Options{Path: b.TempDir(), Max: 1 << 30})
		if err != nil {
			b.Fatal(err)
		}
		p.store = tiered.New(mem, dsk)
	}
	if p.c, err = cache.New(cache.Config{Store: p.store}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { p.c.Close(b.Context()) })
	p.key = hitKey(b, p.c, mem)
	p.put(b, 0, n)
	return p
}

// put stores records as the engine would, and waits every few thousand until they are where they stay: the disk's queue has no room for all.
func (p *purgeBench) put(b *testing.B, from, to int) {
	b.Helper()
	now := time.Now().UTC()
	for i := from; i < to; i++ {
		p.token++
		p.store.Put(&cache.Record{
			Key: p.key + benchPath(i), Primary: p.key + benchPath(i), Token: p.token, StoredAt: now, Status: http.StatusOK,
			Fields: cache.NewFields(http.Header{
				"Cache-Control": {"max-age=600"}, "Content-Type": {"text/html"}, "Date": {now.Format(http.TimeFormat)}, "Surrogate-Key": {benchTag(i)},
			}),
			Body: cache.MemoryBody(p.body), Tags: []string{benchTag(i)},
			Life: policy.Life{BornAt: now, FreshFor: time.Hour, Flags: policy.Explicit},
		})
		if i%5000 == 4999 || i == to-1 {
			if err := p.store.(cache.Syncer).Sync(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// run purges step records after the other, round and round; when the last was purged all are put back.
func (p *purgeBench) run(b *testing.B, step int, selector func(i int) cache.Selector) {
	p.next = 0
	b.ReportAllocs()
	for b.Loop() {
		if p.next == p.n {
			b.StopTimer()
			p.put(b, 0, p.n)
			p.next = 0
			b.StartTimer()
		}
		res, err := p.c.Purge(b.Context(), selector(p.next), cache.PurgeOptions{})
		if err != nil || res.Records != step {
			b.Fatalf("%d records reached, %v; want %d", res.Records, err, step)
		}
		p.next += step
	}
	p.put(b, 0, p.next)
}
