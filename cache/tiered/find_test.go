package tiered

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/cachetest"
)

func TestJournal(t *testing.T) {
	cachetest.RunJournal(t, func(t *testing.T, dir string) cachetest.JournalStore {
		return open(t, dir, cachetest.Budget, cachetest.Budget)
	})
}

func wantFound(t *testing.T, s *Store, term string, want ...string) {
	t.Helper()
	var got []string
	s.Find(term, func(r *cache.Record) bool {
		got = append(got, r.Key)
		return true
	})
	slices.Sort(got)
	if want := slices.Sorted(slices.Values(want)); !slices.Equal(got, want) {
		t.Errorf("%q finds %q, want %q", term, got, want)
	}
}

// Find sees what is in memory, on disk, or both, each once, and takes nothing into memory.
func TestFind(t *testing.T) {
	s := reopened(t, cachetest.Tagged("disk", 1, "x", "y"), cachetest.Tagged("both", 2, "x", "y"), cachetest.Tagged("other", 3, "y"))
	if _, ok := s.Get("both"); !ok {
		t.Fatal("miss")
	}
	s.mem.Put(cachetest.Tagged("memory", 4, "x"))
	for range 3 {
		wantFound(t, s, "x", "both", "disk", "memory")
		wantFound(t, s, "y", "both", "disk", "other")
	}
	if inMemory(t, s, "disk") || inMemory(t, s, "other") {
		t.Error("Find took a record into memory")
	}
	for stop := 1; stop <= 3; stop++ {
		n := 0
		s.Find("x", func(*cache.Record) bool { n++; return n < stop })
		if n != stop {
			t.Errorf("%d records after it was told to stop at %d", n, stop)
		}
	}
	s.Find("x", func(r *cache.Record) bool { s.Delete(r.Key, 9); return true })
	wantFound(t, s, "x")
	wantFound(t, s, "y", "other")
}

// A record that wanders between the tiers meanwhile is found once.
func TestFindWhilePromoting(t *testing.T) {
	const n = 60
	var list []*cache.Record
	var keys []string
	for i := range uint64(n) {
		r := cachetest.Tagged(fmt.Sprint("k", i), i+1, "all")
		r.Body = cache.MemoryBody(cachetest.Content(r.Key, r.Token, smallBody))
		list, keys = append(list, r), append(keys, r.Key)
	}
	s := reopened(t, list...)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			for i := w; ; i += 7 {
				select {
				case <-stop:
					return
				default:
				}
				key := keys[i%n]
				if _, ok := s.Get(key); !ok {
					t.Errorf("%q: miss", key)
					return
				}
				if i%3 == 0 {
					s.mem.Delete(key, 1<<40)
				}
			}
		})
	}
	for range 200 {
		wantFound(t, s, "all", keys...)
	}
	close(stop)
	wg.Wait()
}
