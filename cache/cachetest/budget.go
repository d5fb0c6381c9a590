package cachetest

import (
	"fmt"
	"testing"

	"github.com/swrproxy/swrproxy/cache"
)

func testTooLarge(t *testing.T, s cache.Store) {
	src, ok := s.(cache.StatsSource)
	if !ok {
		t.Skip("not a StatsSource")
	}
	limit := src.Stats().Max
	put(t, s, Record("a", 1, 10), cache.PutStored)
	put(t, s, Record("b", 1, int(limit)), cache.PutRefused)
	wantMiss(t, s, "b")
	// The record that would have been replaced is out of date.
	put(t, s, Record("a", 2, int(limit)), cache.PutRefused)
	wantMiss(t, s, "a")
	put(t, s, Record("a", 1, 10), cache.PutOlder)
	wantMiss(t, s, "a")
	put(t, s, Record("a", 3, 10), cache.PutStored)
	wantToken(t, s, "a", 3)
}

// testBodyLimit puts a body as large as the store says that it takes.
func testBodyLimit(t *testing.T, s cache.Store) {
	l, ok := s.(cache.BodyLimiter)
	if !ok {
		t.Skip("not a BodyLimiter")
	}
	limit := l.BodyLimit()
	if st, ok := s.(cache.StatsSource); ok && (limit < st.Stats().Max/4 || limit > st.Stats().Max) {
		t.Errorf("bodies of up to %d bytes, with a budget of %d", limit, st.Stats().Max)
	}
	put(t, s, Record("a", 1, int(limit)), cache.PutStored)
	wantToken(t, s, "a", 1)
	Sync(t, s)
	wantToken(t, s, "a", 1)
}

// testBudget puts twice the budget: each record is seen at once, the budget holds, and what is there is whole.
func testBudget(t *testing.T, s cache.Store) {
	src, ok := s.(cache.StatsSource)
	if !ok {
		t.Skip("not a StatsSource")
	}
	limit := src.Stats().Max
	total, n := int64(0), 0
	for ; total < 2*limit; n++ {
		key := fmt.Sprintf("key/%d", n)
		r := Record(key, uint64(n+1), 1000+(n%7)*5000)
		total += r.Cost()
		put(t, s, r, cache.PutStored)
		wantToken(t, s, key, uint64(n+1))
		if n%64 == 0 {
			Sync(t, s)
			if st := src.Stats(); st.Bytes > st.Max {
				t.Fatalf("after %d records: %d bytes, budget %d", n, st.Bytes, st.Max)
			}
		}
	}
	Sync(t, s)
	CheckInvariants(t, s)
	if len(tiers(s)) > 1 {
		return // a record that one tier dropped may be in the other: they need not add up
	}
	st := src.Stats()
	if gone := st.Evicted + st.Rejected; st.Records+gone != int64(n) || gone == 0 {
		t.Errorf("%d put, %d held, %d evicted, %d rejected: they do not add up", n, st.Records, st.Evicted, st.Rejected)
	}
	if st.Bytes < limit/2 {
		t.Errorf("store holds %d bytes of %d after twice its budget was put: it wastes room", st.Bytes, limit)
	}
}
