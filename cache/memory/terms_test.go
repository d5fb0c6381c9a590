package memory

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/swrproxy/swrproxy/cache"
)

// The terms of a shard say what a map of sets would, however keys and terms crowd each other, and give room back.
func TestTermsAreAMapOfSets(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var x terms
	want := map[termID]map[uint64]bool{}
	some := func() (termID, uint64) { return termID(r.Uint32N(40)), r.Uint64N(200) }
	check := func(term termID) {
		t.Helper()
		got := x.appendKeys(nil, term)
		slices.Sort(got)
		if list := slices.Sorted(maps.Keys(want[term])); !slices.Equal(got, list) {
			t.Fatalf("term %d has %v, want %v", term, got, list)
		}
	}
	for n := range 50_000 {
		term, key := some()
		// Crowds come and go.
		if add := r.IntN(10) < 3+n/5_000%2*5; add {
			x.add(term, key)
			if want[term] == nil {
				want[term] = map[uint64]bool{}
			}
			want[term][key] = true
		} else {
			x.remove(term, key)
			delete(want[term], key)
		}
		check(term)
	}
	for term := range want {
		for key := range want[term] {
			x.remove(term, key)
		}
	}
	if x.live != 0 || x.pairs.used != 0 || x.heads.used != 0 || len(x.nodes) > 4*minNodes {
		t.Errorf("%d nodes, %d of %d in use, %d pairs, %d heads are left", len(x.nodes), x.live, cap(x.nodes), x.pairs.used, x.heads.used)
	}
}

// A record with one tag takes at most 64 bytes more than the tag itself, whether the tag is its own, is shared by a few, or by all. One without terms takes none.
func TestTermOverhead(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector pads allocations")
	}
	const n = 100_000
	for name, tagOf := range map[string]func(i int) []string{
		"none":       func(int) []string { return nil },
		"its own":    func(i int) []string { return []string{fmt.Sprint("product-", i)} },
		"one of 100": func(i int) []string { return []string{fmt.Sprint("group-", i/100)} },
		"all":        func(int) []string { return []string{"everything"} },
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, 512<<20)
			for i := range n {
				r := plain(i)
				r.Tags = tagOf(i)
				s.Put(r)
			}
			settleAll(s)
			with := liveHeap()
			for i := range s.shards {
				s.shards[i].terms = terms{}
			}
			each := float64(with-liveHeap()) / n
			t.Logf("%.1f bytes for each record", each)
			if limit := 64.0; name == "none" && each > 0.5 || each > limit {
				t.Errorf("the index takes %.1f bytes for each record", each)
			}
			runtime.KeepAlive(s)
		})
	}
}

func BenchmarkFind(b *testing.B) {
	for _, n := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprintf("100 of %d", n), func(b *testing.B) {
			s := open(b, 4<<30)
			for i := range n {
				r := plain(i)
				r.Body = cache.MemoryBody(make([]byte, 100))
				r.Tags = []string{fmt.Sprint("group-", i/100)}
				s.Put(r)
			}
			settleAll(s)
			b.ReportAllocs()
			for b.Loop() {
				found := 0
				s.Find("group-7", func(*cache.Record) bool { found++; return true })
				if found != 100 {
					b.Fatalf("found %d", found)
				}
			}
		})
	}
}
