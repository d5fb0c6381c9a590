package cachetest

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/swrproxy/swrproxy/cache"
)

// findTests are the contract of a [cache.Finder].
var findTests = map[string]func(*testing.T, cache.Store, cache.Finder){
	"find sees a put, a replacement and a delete": testFind,
	"find compares terms whole":                   testFindWhole,
	"find may stop and change the store":          testFindChanges,
	"find misses nothing that stays":              testFindRace,
}

// Tagged is Record with these tags in place of the usual ones.
func Tagged(key string, token uint64, tags ...string) *cache.Record {
	r := Record(key, token, 100)
	r.Tags = tags
	return r
}

// Variant is Tagged for a variant of a URL, by which it is found as well; url is the plain key.
func Variant(url, name string, token uint64, tags ...string) *cache.Record {
	r := Tagged(url+"\x00\xff"+name, token, tags...)
	r.Primary = url
	return r
}

// urlTermOf is what all variants of a URL are found by.
func urlTermOf(url string) string {
	return slices.Collect(Variant(url, "any", 1).Terms())[0]
}

// wantFound checks the keys that a term finds, each once.
func wantFound(t testing.TB, f cache.Finder, term string, want ...string) {
	t.Helper()
	var got []string
	f.Find(term, func(r *cache.Record) bool {
		got = append(got, r.Key)
		return true
	})
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("find %q: %q, want %q", term, got, want)
	}
}

const findURL = "rule\x00http://h/page"

func testFind(t *testing.T, s cache.Store, f cache.Finder) {
	steps := []func(){
		func() { wantFound(t, f, "a") },
		func() { s.Put(Tagged("k1", 1, "a", "b")); wantFound(t, f, "a", "k1"); wantFound(t, f, "b", "k1") },
		func() { s.Put(Tagged("k2", 2, "b")); wantFound(t, f, "b", "k1", "k2") },
		func() {
			s.Put(Tagged("k1", 3, "b", "c"))
			wantFound(t, f, "a")
			wantFound(t, f, "b", "k1", "k2")
			wantFound(t, f, "c", "k1")
		},
		func() { s.Put(Tagged("k1", 2, "late")); wantFound(t, f, "late"); wantFound(t, f, "c", "k1") },
		func() { s.Put(Tagged("k1", 3, "c")); wantFound(t, f, "b", "k2"); wantFound(t, f, "c", "k1") },
		func() { s.Delete("k1", 2); wantFound(t, f, "c", "k1") },
		func() { s.Delete("k1", 3); wantFound(t, f, "c") },
		func() { s.Put(Tagged("k1", 4)); wantFound(t, f, "c"); wantFound(t, f, "b", "k2") },
		func() { s.Put(Tagged(findURL, 5)); wantFound(t, f, urlTermOf(findURL)) },
		func() {
			s.Put(Variant(findURL, "gzip", 6))
			s.Put(Variant(findURL, "br", 7))
			s.Put(Variant(findURL+"2", "br", 8))
			wantFound(t, f, urlTermOf(findURL), findURL+"\x00\xffgzip", findURL+"\x00\xffbr")
		},
		func() {
			s.Delete(findURL+"\x00\xffbr", math.MaxUint64)
			wantFound(t, f, urlTermOf(findURL), findURL+"\x00\xffgzip")
		},
	}
	for i, step := range steps {
		if step(); i%3 == 2 {
			Sync(t, s)
		}
		if t.Failed() {
			t.Fatalf("at step %d", i)
		}
	}
}

func testFindWhole(t *testing.T, s cache.Store, f cache.Finder) {
	terms := []string{"a", "ab", "A", "a b", "ä", "a*", "", "0", urlTermOf(findURL)}
	for i, term := range terms[:len(terms)-1] {
		s.Put(Tagged(fmt.Sprint("k", i), uint64(i+1), term))
	}
	s.Put(Variant(findURL, "gzip", 100))
	for range 2 {
		for i, term := range terms[:len(terms)-1] {
			wantFound(t, f, term, fmt.Sprint("k", i))
		}
		wantFound(t, f, terms[len(terms)-1], findURL+"\x00\xffgzip")
		wantFound(t, f, "none")
		Sync(t, s)
	}
}

func testFindChanges(t *testing.T, s cache.Store, f cache.Finder) {
	const n = 300
	for i := range uint64(n) {
		s.Put(Tagged(fmt.Sprint("k", i), i+1, "crowd"))
	}
	seen := 0
	f.Find("crowd", func(*cache.Record) bool { seen++; return seen < 5 })
	if seen != 5 {
		t.Errorf("find went on to %d records after it was told to stop", seen)
	}
	seen = 0
	f.Find("crowd", func(r *cache.Record) bool {
		seen++
		if got, ok := s.Get(r.Key); !ok || got.Token != r.Token {
			t.Errorf("%q is found and not there", r.Key)
		}
		switch seen % 3 {
		case 0:
			s.Delete(r.Key, math.MaxUint64)
		case 1:
			s.Put(Tagged(r.Key, r.Token, "others"))
		}
		return true
	})
	if seen != n {
		t.Errorf("found %d of %d records", seen, n)
	}
	left := 0
	f.Find("crowd", func(*cache.Record) bool { left++; return true })
	if left != n/3 {
		t.Errorf("%d are left, want %d", left, n/3)
	}
}

// testFindRace has records that stay among others that come, change and go: each find sees all of the former.
func testFindRace(t *testing.T, s cache.Store, f cache.Finder) {
	const stay, rounds = 50, 30
	for i := range uint64(stay) {
		s.Put(Tagged(fmt.Sprint("stays/", i), i+1, "crowd"))
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range uint64(2) {
		wg.Go(func() {
			for i := uint64(0); ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				key := fmt.Sprint("comes/", (i*7+w)%60)
				if i%3 == 0 {
					s.Delete(key, math.MaxUint64-1)
					continue
				}
				s.Put(Tagged(key, 1000+i, "crowd", fmt.Sprint("group", i%5)))
				s.Put(Tagged(fmt.Sprint("stays/", i%stay), i%stay+1, "crowd", "again")) // the same token: it is made anew
			}
		})
	}
	for range rounds {
		seen := map[string]int{}
		f.Find("crowd", func(r *cache.Record) bool {
			seen[r.Key]++
			return true
		})
		for i := range stay {
			if key := fmt.Sprint("stays/", i); seen[key] != 1 {
				t.Errorf("%q was found %d times", key, seen[key])
			}
		}
		for key, n := range seen {
			if n > 1 {
				t.Errorf("%q was found %d times", key, n)
			}
		}
	}
	close(stop)
	wg.Wait()
}

// checkFind checks that records are found by each of their terms, and by nothing else. It looks at a bounded number of terms.
func checkFind(t testing.TB, s cache.Store) {
	t.Helper()
	f, ok := s.(cache.Finder)
	if !ok {
		return
	}
	const most = 200
	want := map[string]map[string]bool{}
	s.(cache.Walker).Walk(func(r *cache.Record) bool {
		for term := range r.Terms() {
			if want[term] == nil && len(want) < most {
				want[term] = map[string]bool{}
			}
			if want[term] != nil {
				want[term][r.Key] = true
			}
		}
		return true
	})
	for term, keys := range want {
		wantFound(t, f, term, slices.Collect(maps.Keys(keys))...)
	}
}
