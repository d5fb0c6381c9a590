package memory

import (
	"fmt"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/policy"
)

// began is when all records of plain were made: two of the same number are equal.
var began = time.Now().UTC()

// plain is a record as a plain origin makes it: 1 KiB of body, the usual fields.
func plain(i int) *cache.Record {
	key := fmt.Sprintf("default\x00http://example.org/objects/%d", i)
	now := began
	return &cache.Record{
		Key: key, Primary: key, Token: uint64(i), StoredAt: now, Status: http.StatusOK,
		Fields: cache.NewFields(http.Header{
			"Cache-Control":  {"public, max-age=3600"},
			"Content-Length": {"1024"},
			"Content-Type":   {"text/html; charset=utf-8"},
			"Date":           {now.Format(http.TimeFormat)},
		}),
		Body: cache.MemoryBody(make([]byte, 1024)),
		Life: policy.Life{BornAt: now, FreshFor: time.Hour},
	}
}

// A record of 1 KiB takes less than 1.7 KiB of live heap, everything included, and what Cost says is neither less than that nor a
// quarter more.
func TestOverhead(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector pads allocations")
	}
	const n = 100_000
	before := liveHeap()
	s := open(t, 512<<20)
	for i := range n {
		s.Put(plain(i))
	}
	settleAll(s)
	each := float64(liveHeap()-before) / n
	cost := float64(plain(0).Cost())
	t.Logf("%.0f bytes of live heap for each record, cost says %.0f", each, cost)
	if each > 1.7*1024 {
		t.Errorf("%.0f bytes of live heap for a record of 1 KiB, want at most %.0f", each, 1.7*1024)
	}
	if cost < each*0.95 || cost > each*1.25 {
		t.Errorf("cost says %.0f bytes, heap says %.0f", cost, each)
	}
	if st := s.Stats(); st.Records != n {
		t.Errorf("stats %+v, want all %d records", st, n)
	}
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
