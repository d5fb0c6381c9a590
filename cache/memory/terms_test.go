package memory

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/cachetest"
)

// pairsOf lists what x holds, having checked that each pair is in its leaf, and that the leaves are not too many.
func pairsOf(t testing.TB, x *terms) map[pair]bool {
	t.Helper()
	if len(x.bounds) != len(x.leaves) || len(x.bounds) > 0 && x.bounds[0] != (pair{}) {
		t.Fatalf("%d leaves have bounds %v", len(x.leaves), x.bounds)
	}
	held := map[pair]bool{}
	n := 0
	for i, leaf := range x.leaves {
		if n += len(leaf); len(leaf) > leafLen {
			t.Fatalf("leaf %d has %d pairs", i, len(leaf))
		}
		if i > 0 && x.bounds[i-1].before(x.bounds[i]) == 0 {
			t.Fatalf("leaves %d and %d have bounds %v, %v", i-1, i, x.bounds[i-1], x.bounds[i])
		}
		for _, p := range leaf {
			if held[p] = true; p.before(x.bounds[i]) == 1 || i+1 < len(x.bounds) && p.before(x.bounds[i+1]) == 0 {
				t.Fatalf("leaf %d from %v has %v", i, x.bounds[i], p)
			}
		}
	}
	if len(held) != n {
		t.Fatalf("%d different pairs are held, and %d in all", len(held), n)
	}
	if len(x.leaves) > 1 && (n < len(x.leaves)*leafLen/8 || cap(x.leaves) > 8*len(x.leaves)) {
		t.Fatalf("%d leaves, with room for %d, hold %d pairs", len(x.leaves), cap(x.leaves), n)
	}
	return held
}

// The terms of a shard say what a set of pairs would, however keys and terms crowd each other; crowds come and go, and leave nothing behind.
func TestTermsAreASet(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, some := range map[string]func() pair{
		"spread":      func() pair { return newPair(termID(r.Uint32()), r.Uint64()) },
		"few terms":   func() pair { return newPair(termID(r.Uint32N(5)), r.Uint64N(2000)<<20) },
		"few of each": func() pair { return newPair(termID(r.Uint32N(40)), r.Uint64N(60)) },
		"one key":     func() pair { return newPair(termID(r.Uint32N(2000)), 7) },
		"one term":    func() pair { return newPair(1, r.Uint64N(4000)) },
		"the least":   func() pair { return newPair(0, r.Uint64N(3000)) },
		"the last":    func() pair { return newPair(math.MaxUint32, math.MaxUint64-r.Uint64N(3000)) },
	} {
		t.Run(name, func(t *testing.T) { likeASet(t, r, some) })
	}
}

func likeASet(t *testing.T, r *rand.Rand, some func() pair) {
	var x terms
	want := map[pair]bool{}
	var list []pair // of all that want ever had
	for n := range 30_000 {
		p, adding := some(), r.IntN(10) < 2+n/3_000%2*6
		if !adding && len(list) > 0 {
			p = list[r.IntN(len(list))]
		}
		if is := want[p]; is != adding {
			if adding {
				x.add(p)
				list = append(list, p)
				want[p] = true
			} else {
				x.remove(p)
				delete(want, p)
			}
		}
		if n%500 == 0 {
			sameSet(t, &x, want)
			readsLike(t, &x, want, p.term)
		}
	}
	sameSet(t, &x, want)
	for p := range want {
		x.remove(p)
		x.remove(p) // not there any more
	}
	if x.bounds != nil || x.leaves != nil {
		t.Errorf("nothing is held, and kept are %d leaves", len(x.leaves))
	}
}

// readsLike checks what is read of a term.
func readsLike(t *testing.T, x *terms, want map[pair]bool, term termID) {
	t.Helper()
	var wantKeys []uint64
	for p := range want {
		if p.term == term {
			wantKeys = append(wantKeys, p.hash())
		}
	}
	var keys []uint64
	for from, more := newPair(term, 0), true; more; {
		var some []uint64
		some, from, more = x.read(from, make([]uint64, 0, findBatch))
		if len(some) > findBatch {
			t.Fatalf("%d keys were read at once", len(some))
		}
		keys = append(keys, some...)
	}
	slices.Sort(keys)
	slices.Sort(wantKeys)
	if !slices.Equal(keys, wantKeys) {
		t.Fatalf("term %d: read %d keys, want %d", term, len(keys), len(wantKeys))
	}
}

func sameSet(t *testing.T, x *terms, want map[pair]bool) {
	t.Helper()
	held := pairsOf(t, x)
	if !maps.Equal(held, want) {
		t.Fatalf("%d pairs are held, want %d", len(held), len(want))
	}
}

// A change of several terms at once leaves alone what stays.
func TestTermsChange(t *testing.T) {
	var x termLists
	r := rand.New(rand.NewPCG(3, 4))
	have := map[uint64][]termID{}
	for range 5000 {
		key := r.Uint64N(50)
		var now []termID
		for range r.IntN(6) {
			now = append(now, termID(r.Uint32N(12)))
		}
		slices.Sort(now)
		now = slices.Compact(now)
		x.change(key, have[key], now)
		have[key] = now
		want := map[pair]bool{}
		for key, list := range have {
			for _, term := range list {
				want[newPair(term, key)] = true
			}
		}
		held := map[pair]bool{}
		for i := range x {
			maps.Copy(held, pairsOf(t, &x[i].terms))
		}
		if !maps.Equal(held, want) {
			t.Fatalf("%d pairs are held, want %d", len(held), len(want))
		}
	}
}

// Readers that go through a term in small steps see all that stays, and nothing twice, while others come and go and leaves are split and joined.
func TestTermsReadDuringChanges(t *testing.T) {
	const stay, readers = 1000, 5
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 5))
		spread := func(i uint64) uint64 { return i * 0x9e3779b97f4a7c15 } // even ones stay
		var x terms
		have := map[uint64]bool{}
		for i := range uint64(2 * stay) {
			x.add(newPair(1, spread(i)))
			have[i] = true
		}
		var from [readers]pair
		var seen [readers]map[uint64]bool
		for i := range from {
			from[i], seen[i] = newPair(1, 0), map[uint64]bool{}
		}
		for left := readers; left > 0; {
			i := r.IntN(readers)
			if from[i] == (pair{}) {
				continue
			}
			var keys []uint64
			var more bool
			keys, from[i], more = x.read(from[i], make([]uint64, 0, leafLen))
			if !more {
				left--
			}
			for _, key := range keys {
				if seen[i][key] {
					t.Fatalf("seed %d: key %x twice", seed, key)
				}
				seen[i][key] = true
			}
			come := r.IntN(2) == 0
			for range r.IntN(400) {
				key := 2*r.Uint64N(2*stay) + 1
				if have[key] == come {
					continue
				}
				if have[key] = come; come {
					x.add(newPair(1, spread(key)))
				} else {
					x.remove(newPair(1, spread(key)))
				}
			}
		}
		for i := range seen {
			for key := uint64(0); key < 2*stay; key += 2 {
				if !seen[i][spread(key)] {
					t.Fatalf("seed %d: reader %d missed key %d", seed, i, key)
				}
			}
		}
		pairsOf(t, &x)
	}
}

// checkTerms checks that the terms are those of the records in the index.
func checkTerms(t testing.TB, s *Store) {
	t.Helper()
	s.settle.passMu.Lock() // it packs records
	defer s.settle.passMu.Unlock()
	want, held := map[pair]bool{}, map[pair]bool{}
	for i := range s.shards {
		sh := &s.shards[i]
		for j := range sh.index.entries {
			e := &sh.index.entries[j]
			if e.place() == 0 {
				continue
			}
			for term := range s.chunks.record(e.place()).Terms() {
				want[newPair(s.termID(term), e.hash)] = true
			}
		}
	}
	for i := range s.terms {
		maps.Copy(held, pairsOf(t, &s.terms[i].terms))
	}
	if !maps.Equal(held, want) {
		t.Errorf("%d pairs are held, the records have %d", len(held), len(want))
	}
}

// The terms are those of the records, whatever makes these go: a delete, a replacement, a refusal, ristretto, or the end of their probation.
func TestTermsFollowTheIndex(t *testing.T) {
	s := open(t, 512<<10) // some hundred records
	r := rand.New(rand.NewPCG(1, 2))
	for token := uint64(1); token <= 30_000; token++ {
		key := fmt.Sprint("key/", r.IntN(3000))
		switch r.IntN(10) {
		case 0:
			s.Delete(key, token)
		case 1:
			s.Get(key)
		case 2:
			large := cachetest.Record(key, token, int(s.sizes.window)+r.IntN(int(s.sizes.main)))
			large.Tags = []string{"large", "crowd"}
			s.Put(large)
		case 3:
			s.Put(cachetest.Variant(fmt.Sprint("rule\x00http://h/", r.IntN(9)), key, token, "crowd"))
		default:
			s.Put(cachetest.Tagged(key, token, someTags(r)...))
		}
		if token%3000 == 0 {
			checkTerms(t, s)
			settleAll(s)
			checkTerms(t, s)
		}
	}
	if st := s.Stats(); st.Evicted == 0 || st.Rejected == 0 || st.Purged == 0 {
		t.Errorf("stats %+v: the test does not show all ways to go", st)
	}
	cachetest.CheckInvariants(t, s)
	packing(t, s)
}

func someTags(r *rand.Rand) []string {
	tags := make([]string, r.IntN(4))
	for i := range tags {
		tags[i] = fmt.Sprint("tag", r.IntN(20))
	}
	return tags
}

// colliding returns two tags with one hash.
func colliding(t *testing.T, s *Store) (a, b string) {
	t.Helper()
	seen := map[termID]string{}
	for i := range 1_000_000 {
		b := fmt.Sprint("tag", i)
		id := s.termID(b)
		if a, ok := seen[id]; ok {
			return a, b
		}
		seen[id] = b
	}
	t.Fatal("no two of a million tags have one hash")
	return "", ""
}

func foundKeys(s *Store, term string) (keys []string) {
	s.Find(term, func(r *cache.Record) bool { keys = append(keys, r.Key); return true })
	slices.Sort(keys)
	return keys
}

func wantKeys(t *testing.T, s *Store, term string, want ...string) {
	t.Helper()
	if got := foundKeys(s, term); !slices.Equal(got, want) {
		t.Errorf("find %q: %q, want %q", term, got, want)
	}
}

// Two terms with one hash do not find each other's records, and a record that has both keeps the one that it has longer.
func TestTermsWithOneHash(t *testing.T) {
	s := open(t, 1<<20)
	a, b := colliding(t, s)
	s.Put(cachetest.Tagged("k1", 1, a))
	s.Put(cachetest.Tagged("k2", 1, b))
	s.Put(cachetest.Tagged("k3", 1, a, b))
	wantKeys(t, s, a, "k1", "k3")
	wantKeys(t, s, b, "k2", "k3")
	s.Put(cachetest.Tagged("k3", 2, b))
	wantKeys(t, s, a, "k1")
	wantKeys(t, s, b, "k2", "k3")
	s.Put(cachetest.Tagged("k3", 3))
	s.Delete("k2", 2)
	wantKeys(t, s, a, "k1")
	wantKeys(t, s, b)
	checkTerms(t, s)
}

// Of two keys with one hash the latter takes the place of the former, which its terms find no more.
func TestKeysWithOneHash(t *testing.T) {
	s := open(t, 1<<20)
	s.Put(cachetest.Tagged("k1", 1, "a", "both"))
	r := cachetest.Tagged("k2", 2, "b", "both")
	s.arrive(&change{hash: s.hash("k1"), cost: r.Cost(), id: s.nextID()}, r)
	wantKeys(t, s, "a")
	wantKeys(t, s, "b", "k2")
	wantKeys(t, s, "both", "k2")
	checkTerms(t, s)
}

// A crowd of one term takes more than one batch of each shard. f is called outside all locks: it may panic, and close the store.
func TestFindInBatches(t *testing.T) {
	const n = numShards * findBatch * 3 / 2
	s := open(t, 64<<20)
	want := make([]string, n)
	for i := range want {
		want[i] = fmt.Sprint("key/", i)
		s.Put(cachetest.Tagged(want[i], 1, "crowd"))
	}
	slices.Sort(want)
	wantKeys(t, s, "crowd", want...)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic of f is lost")
			}
		}()
		s.Find("crowd", func(*cache.Record) bool { panic("f") })
	}()
	checkTerms(t, s)
	seen := 0
	s.Find("crowd", func(r *cache.Record) bool {
		if seen++; seen == n/2 {
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
		return true
	})
	if seen != n/2 {
		t.Errorf("%d of %d were found in a store that was closed after %d", seen, n, n/2)
	}
}

// A find misses no record that is replaced meanwhile by one with the same term, however the settler moves records.
func TestFindDuringReplacements(t *testing.T) {
	const n = numShards * findBatch * 5 / 4
	s := open(t, 64<<20)
	stop := make(chan struct{})
	done := make(chan struct{})
	put := func(i, token uint64) {
		s.Put(cachetest.Tagged(fmt.Sprint("key/", i%n), token, "crowd", fmt.Sprint(token)))
	}
	for i := range uint64(n) {
		put(i, 1)
	}
	go func() {
		defer close(done)
		for i := uint64(0); ; i++ {
			select {
			case <-stop:
				return
			default:
				put(i*7, 2+i)
			}
		}
	}()
	for range 10 {
		seen := map[string]bool{}
		s.Find("crowd", func(r *cache.Record) bool {
			if seen[r.Key] {
				t.Errorf("%q twice", r.Key)
			}
			seen[r.Key] = true
			return true
		})
		if len(seen) != n {
			t.Errorf("found %d of %d", len(seen), n)
		}
	}
	close(stop)
	<-done
	checkTerms(t, s)
}

// Neither to find nothing, nor a few, nor to put a record without terms allocates for it.
func TestFindDoesNotAllocate(t *testing.T) {
	s := open(t, 1<<20)
	for i := range 50 {
		s.Put(cachetest.Tagged(fmt.Sprint("key/", i), 1, "crowd"))
	}
	for _, term := range []string{"crowd", "none"} {
		if n := testing.AllocsPerRun(100, func() { s.Find(term, func(*cache.Record) bool { return true }) }); n != 0 {
			t.Errorf("find %q allocates %.1f times", term, n)
		}
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
			s.terms.clear()
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
