package cachetest

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"unsafe"

	"github.com/swrproxy/swrproxy/cache"
)

func testEmpty(t *testing.T, s cache.Store) {
	wantMiss(t, s, "")
	wantMiss(t, s, "a")
	if s.Delete("a", math.MaxUint64) {
		t.Error("delete found a record in an empty store")
	}
	if w, ok := s.(cache.Walker); ok {
		w.Walk(func(r *cache.Record) bool { t.Errorf("walk found %q in an empty store", r.Key); return true })
	}
}

// sizes are body sizes around every limit that a store may have: empty, one page, 64 KiB, a spool.
var sizes = []int{0, 1, 100, 4095, 4096, 64<<10 - 1, 64 << 10, 64<<10 + 1, 300 << 10, 1<<20 + 1}

func testPutGet(t *testing.T, s cache.Store) {
	for round := range 3 {
		for i, size := range sizes {
			key := fmt.Sprintf("key/%d", i)
			put(t, s, Record(key, uint64(round+1), size), cache.PutStored)
			wantToken(t, s, key, uint64(round+1))
		}
		Sync(t, s)
	}
	for i := range sizes {
		wantToken(t, s, fmt.Sprintf("key/%d", i), 3)
	}
}

func testRoundTrip(t *testing.T, s cache.Store) {
	full := Record("rule\x00GET\x00https://example.org/ü?a=1", 1<<60, 1000)
	full.Primary = "another primary"
	full.Trailer = cache.NewLines(http.Header{"X-Checksum": {"1", "2"}})
	full.Partial = &cache.Partial{Start: 10, Size: -1}
	full.Life.Flags = 3
	index := &cache.Record{
		Key: "index", Primary: "index", Token: 7, StoredAt: full.StoredAt,
		Index: &cache.Index{Specs: [][]string{{}, {"Accept", "Accept-Language"}}, Variants: []string{"index\x00a", "index\x00b"}},
	}
	bare := &cache.Record{Key: "bare", Primary: "bare", Status: http.StatusNoContent}
	for _, want := range []*cache.Record{full, index, bare} {
		put(t, s, want, cache.PutStored)
	}
	for range 2 {
		for _, want := range []*cache.Record{full, index, bare} {
			got, ok := s.Get(want.Key)
			if !ok {
				t.Fatalf("%q: miss", want.Key)
			}
			if diff := Diff(want, got); diff != "" {
				t.Errorf("%q changed (-put +get):\n%s", want.Key, diff)
			}
		}
		Sync(t, s)
	}
}

func testKeyNotKept(t *testing.T, s cache.Store) {
	put(t, s, Record("kept", 1, 10), cache.PutStored)
	buf := []byte("kept")
	key := unsafe.String(&buf[0], len(buf))
	if _, ok := s.Get(key); !ok {
		t.Fatal("miss")
	}
	copy(buf, "lost")
	wantMiss(t, s, "lost")
	wantToken(t, s, "kept", 1)
	Sync(t, s)
	wantMiss(t, s, "lost")
	wantToken(t, s, "kept", 1)
}

func testUpdate(t *testing.T, s cache.Store) {
	for token := uint64(1); token <= 200; token++ {
		put(t, s, Record("a", token, 100), cache.PutStored)
		wantToken(t, s, "a", token)
		if token%50 == 0 {
			Sync(t, s)
			wantToken(t, s, "a", token)
		}
	}
}

func testResize(t *testing.T, s cache.Store) {
	token := uint64(0)
	for range 3 {
		for _, size := range sizes {
			token++
			put(t, s, Record("a", token, size), cache.PutStored)
			wantToken(t, s, "a", token)
			Sync(t, s)
			wantToken(t, s, "a", token)
		}
	}
}

func testOlder(t *testing.T, s cache.Store) {
	put(t, s, Record("a", 5, 10), cache.PutStored)
	put(t, s, Record("a", 4, 10), cache.PutOlder)
	wantToken(t, s, "a", 5)
	Sync(t, s)
	put(t, s, Record("a", 4, 100_000), cache.PutOlder)
	wantToken(t, s, "a", 5)
	put(t, s, Record("b", 4, 10), cache.PutStored)
}

func testOlderAfterDelete(t *testing.T, s cache.Store) {
	put(t, s, Record("a", 5, 10), cache.PutStored)
	s.Delete("a", 9)
	put(t, s, Record("a", 4, 10), cache.PutOlder)
	wantMiss(t, s, "a")
	Sync(t, s)
	put(t, s, Record("a", 4, 10), cache.PutOlder)
	wantMiss(t, s, "a")
	put(t, s, Record("a", 6, 10), cache.PutStored)
	wantToken(t, s, "a", 6)
}

func testEqualToken(t *testing.T, s cache.Store) {
	first, second := Record("a", 5, 10), Record("a", 5, 20)
	put(t, s, first, cache.PutStored)
	put(t, s, second, cache.PutStored)
	got, ok := s.Get("a")
	if !ok || got.Body.Size() != 20 {
		t.Errorf("got %v, %t, want the second record", got, ok)
	}
}

func testDelete(t *testing.T, s cache.Store) {
	put(t, s, Record("a", 5, 10), cache.PutStored)
	put(t, s, Record("b", 5, 10), cache.PutStored)
	for range 2 {
		if s.Delete("a", 4) {
			t.Error("delete with an older token deleted")
		}
		wantToken(t, s, "a", 5)
		Sync(t, s)
	}
	if !s.Delete("a", 5) {
		t.Error("delete did not find its record")
	}
	wantMiss(t, s, "a")
	if s.Delete("a", 5) {
		t.Error("second delete found a record")
	}
	Sync(t, s)
	wantMiss(t, s, "a")
	wantToken(t, s, "b", 5)
}

func testDeleteAtOnce(t *testing.T, s cache.Store) {
	for token := uint64(1); token < 300; token++ {
		put(t, s, Record("a", token, 10), cache.PutStored)
		if !s.Delete("a", token) {
			t.Fatalf("token %d: delete did not find its record", token)
		}
		wantMiss(t, s, "a")
	}
	Sync(t, s)
	wantMiss(t, s, "a")
}

func testPutAfterDelete(t *testing.T, s cache.Store) {
	for token := uint64(1); token < 300; token++ {
		s.Delete("a", token)
		put(t, s, Record("a", token, 10), cache.PutStored)
		wantToken(t, s, "a", token)
	}
	Sync(t, s)
	wantToken(t, s, "a", 299)
}

func testWalk(t *testing.T, s cache.Store) {
	w, ok := s.(cache.Walker)
	if !ok {
		t.Skip("not a Walker")
	}
	want := map[string]bool{}
	for i := range 300 {
		key := fmt.Sprintf("key/%d", i)
		put(t, s, Record(key, 1, 100), cache.PutStored)
		if i%3 == 0 {
			s.Delete(key, 1)
			continue
		}
		put(t, s, Record(key, 2, 100), cache.PutStored)
		want[key] = true
	}
	for range 2 {
		got := map[string]bool{}
		w.Walk(func(r *cache.Record) bool {
			if got[r.Key] || !want[r.Key] || r.Token != 2 {
				t.Errorf("walk lists %q, token %d (seen: %t, put: %t)", r.Key, r.Token, got[r.Key], want[r.Key])
			}
			got[r.Key] = true
			return true
		})
		if len(got) != len(want) {
			t.Errorf("walk lists %d records, want %d", len(got), len(want))
		}
		Sync(t, s)
	}
	n := 0
	w.Walk(func(*cache.Record) bool { n++; return n < 5 })
	if n != 5 {
		t.Errorf("walk went on after false: %d records", n)
	}
}

func testWalkChanges(t *testing.T, s cache.Store) {
	w, ok := s.(cache.Walker)
	if !ok {
		t.Skip("not a Walker")
	}
	for i := range 100 {
		put(t, s, Record(fmt.Sprintf("key/%d", i), 1, 100), cache.PutStored)
	}
	Sync(t, s)
	w.Walk(func(r *cache.Record) bool {
		if strings.HasSuffix(r.Key, "0") {
			put(t, s, Record(r.Key, 2, 100), cache.PutStored)
		} else if r.Token == 1 {
			s.Delete(r.Key, 1)
		}
		return true
	})
	for i := range 100 {
		key := fmt.Sprintf("key/%d", i)
		if i%10 == 0 {
			wantToken(t, s, key, 2)
		} else {
			wantMiss(t, s, key)
		}
	}
}

func testPurgeCount(t *testing.T, s cache.Store) {
	src, ok := s.(cache.StatsSource)
	if !ok {
		t.Skip("not a StatsSource")
	}
	for i := range 10 {
		put(t, s, Record(fmt.Sprintf("key/%d", i), 1, 100), cache.PutStored)
	}
	for i := range 4 {
		s.Delete(fmt.Sprintf("key/%d", i), 1)
	}
	s.Delete("nothing", 1)
	Sync(t, s)
	st := src.Stats()
	if st.Records != 6 || st.Purged != 4 || st.Evicted+st.Rejected+st.Expired+st.Damaged != 0 {
		t.Errorf("stats %+v, want 6 records, 4 purged, nothing else", st)
	}
}

func put(t testing.TB, s cache.Store, r *cache.Record, want cache.PutResult) {
	t.Helper()
	if got := s.Put(r); got != want {
		t.Errorf("put %q, token %d, %d bytes: %v, want %v", r.Key, r.Token, r.Body.Size(), got, want)
	}
}

func wantToken(t testing.TB, s cache.Store, key string, token uint64) {
	t.Helper()
	r, ok := s.Get(key)
	if !ok {
		t.Errorf("%q: miss, want token %d", key, token)
		return
	}
	if r.Token != token {
		t.Errorf("%q: token %d, want %d", key, r.Token, token)
	}
	if err := Verify(key, r); err != nil {
		t.Error(err)
	}
}

// getMemory looks in memory; a store that is no MemoryGetter shows nothing.
func getMemory(s cache.Store, key string) (*cache.Record, bool) {
	if m, ok := s.(cache.MemoryGetter); ok {
		return m.GetMemory(key)
	}
	return nil, false
}

func wantMiss(t testing.TB, s cache.Store, key string) {
	t.Helper()
	if r, ok := getMemory(s, key); ok {
		t.Errorf("%q: memory shows token %d, want a miss", key, r.Token)
	}
	if r, ok := s.Get(key); ok {
		t.Errorf("%q: token %d, want a miss", key, r.Token)
	}
}
