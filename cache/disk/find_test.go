package disk

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/cachetest"
)

// foundBy are the keys of what a term finds. None may come twice.
func foundBy(t testing.TB, s *Store, term string) map[string]bool {
	t.Helper()
	keys := map[string]bool{}
	s.Find(term, func(r *cache.Record) bool {
		if keys[r.Key] {
			t.Errorf("%q is found twice", r.Key)
		}
		keys[r.Key] = true
		return true
	})
	return keys
}

func wantFound(t testing.TB, s *Store, term string, want ...string) {
	t.Helper()
	got := foundBy(t, s, term)
	lacking := slices.DeleteFunc(slices.Clone(want), func(key string) bool { return got[key] })
	for _, key := range want {
		delete(got, key)
	}
	if few := min(len(lacking), 5); len(lacking)+len(got) > 0 {
		t.Errorf("%q finds %d too many, and %d too few, as %q", term, len(got), len(lacking), lacking[:few])
	}
}

// A record is found wherever it is: in the queue, in the log, in the index, and after a restart.
func TestFindStages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, Options{Path: dir, Linger: time.Hour})
	const n = 3000 // so that most have left the log
	var all, even []string
	for i := range n {
		key := fmt.Sprint("key/", i)
		all = append(all, key)
		tags := []string{"all", fmt.Sprint("tag/", i%100)}
		if i%2 == 0 {
			tags = append(tags, "even")
			even = append(even, key)
		}
		put(t, s, cachetest.Tagged(key, 1, tags...))
		if i == n/2 {
			flushed(t, s)
		}
	}
	check := func() {
		t.Helper()
		wantFound(t, s, "all", all...)
		wantFound(t, s, "even", even...)
		if got := len(foundBy(t, s, "tag/7")); got != n/100 {
			t.Errorf("tag/7 finds %d, want %d", got, n/100)
		}
		wantFound(t, s, "none")
	}
	check()
	flushed(t, s)
	if st := s.w.st; st.terms < n || s.pending.Load().len() == 0 {
		t.Fatalf("%d entries in the bucket, %d wait: the test shows nothing", st.terms, s.pending.Load().len())
	}
	check()
	shut(t, s)
	s = open(t, Options{Path: dir, Linger: time.Hour})
	check()
	for _, key := range even { // in the queue, on the way, and settled
		s.Delete(key, 1)
	}
	for range 2 {
		wantFound(t, s, "even")
		if got := len(foundBy(t, s, "all")); got != n/2 {
			t.Errorf("%d are left, want %d", got, n/2)
		}
		flushed(t, s)
	}
}

// entries counts those of a bucket.
func entries(s *Store, bucket []byte) (n int) {
	_ = s.view(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucket).ForEach(func(_, v []byte) error { n += len(v) / pairSize; return nil })
	}) // fails on nothing
	return n
}

// Puts and deletes without end do not make the index grow.
func TestTermsDoNotGrow(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Max: 8 << 20})
	const keys = 1000
	most := 0
	for round := range uint64(20) {
		for i := range uint64(keys) {
			key := fmt.Sprint("key/", i+round%2*keys/2)
			switch {
			case (i+round)%5 == 0:
				s.Delete(key, math.MaxUint64)
			case i%200 == 0: // makes others go
				put(t, s, cachetest.Record(fmt.Sprint("large/", round, i), 1+round, 300_000))
			default:
				put(t, s, cachetest.Tagged(key, 1+round, fmt.Sprint("a/", round*keys+i), fmt.Sprint("b/", i%10)))
			}
		}
		flushed(t, s)
		if n := entries(s, bucketTerms) + entries(s, bucketTermLog); round == 3 {
			most = n
		} else if round > 3 && n > most*3/2 {
			t.Errorf("%d entries after round %d, %d after the third", n, round, most)
		}
	}
	if s.Stats().Evicted == 0 {
		t.Error("nothing was evicted: the test shows less than it should")
	}
}

// A record that is stored again with the terms that it had writes nothing into their index.
func TestSameTerms(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	put(t, s, cachetest.Tagged("key", 1, "a", "b"))
	flushed(t, s)
	before := entries(s, bucketTermLog)
	put(t, s, cachetest.Tagged("key", 2, "b", "a", "b"))
	put(t, s, cachetest.Tagged("plain", 3))
	flushed(t, s)
	if after := entries(s, bucketTermLog); before != 2 || after != 2 {
		t.Errorf("%d changes after the first put, %d after the second, want 2", before, after)
	}
	put(t, s, cachetest.Tagged("key", 4, "b", "c"))
	flushed(t, s)
	wantFound(t, s, "a")
	wantFound(t, s, "b", "key")
	wantFound(t, s, "c", "key")
}

// Find misses nothing while the index is settled under it, however many transactions that takes.
func TestFindWhileSettling(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Linger: -1})
	var stored atomic.Int64
	var wg sync.WaitGroup
	const n = 1500
	wg.Go(func() {
		for i := range n {
			tags := []string{"all"}
			for j := range 5 {
				tags = append(tags, fmt.Sprint("tag/", i*5+j))
			}
			put(t, s, cachetest.Tagged(fmt.Sprint("key/", i), 1, tags...))
			stored.Add(1)
		}
	})
	for more := true; more; {
		before := stored.Load()
		more = before < n
		got := foundBy(t, s, "all")
		for i := range before {
			if key := fmt.Sprint("key/", i); !got[key] {
				t.Errorf("%q was put before, and is not found among %d", key, len(got))
			}
		}
		if more = more && !t.Failed(); more {
			if got := foundBy(t, s, fmt.Sprint("tag/", (before-1)*5)); before > 0 && len(got) != 1 {
				t.Errorf("the tag of record %d finds %v", before-1, got)
			}
		}
	}
	wg.Wait()
	shut(t, s)
	if s.w.st.terms == 0 {
		t.Error("nothing was settled: the test shows nothing")
	}
}

// A disk that fails in the middle costs the index nothing.
func TestTermsOfFailingDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := &faulty{at: faultCommit}
	s := open(t, Options{Path: dir, Linger: time.Hour, RetryFirst: time.Nanosecond, RetryMax: time.Nanosecond, fault: f.fault})
	want := map[string][]string{}
	for i := range 600 {
		key, tag := fmt.Sprint("key/", i), fmt.Sprint("tag/", i%50)
		put(t, s, cachetest.Tagged(key, 1, tag))
		want[tag] = append(want[tag], key)
		if i%4 == 0 {
			f.on.Store(true)
			_ = s.Sync(t.Context()) // fails
			wantFound(t, s, tag, want[tag]...)
			f.on.Store(false)
			flushed(t, s)
		}
	}
	flushed(t, s)
	if st := s.w.st; st.terms == 0 {
		t.Error("nothing was settled: the test shows less than it should")
	}
	for range 2 {
		for tag, keys := range want {
			wantFound(t, s, tag, keys...)
		}
		shut(t, s)
		s = open(t, Options{Path: dir})
	}
}

// What the index lacks is a problem, what it lists too much is not.
func TestCheckTerms(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spoil    func(*testing.T, string)
		problems int
		stale    int64
	}{
		"entries missing": {emptyBucket(bucketTermLog), 2, 0},
		"records missing": {emptyBucket(bucketRecent), 0, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s, err := Open(Options{Path: dir})
			if err != nil {
				t.Fatal(err)
			}
			put(t, s, cachetest.Tagged("a", 1, "x", "y"))
			put(t, s, cachetest.Tagged("b", 2, "x", "y", "z"))
			put(t, s, cachetest.Tagged("c", 2))
			shut(t, s)
			if rep := wantSound(t, dir); rep.Records != 3 {
				t.Errorf("report %+v", rep)
			}
			tc.spoil(t, dir)
			rep, err := Check(t.Context(), dir)
			if err != nil || len(rep.Problems) != tc.problems || rep.Stale != tc.stale {
				t.Errorf("report %+v, %v, want %d problems, %d stale", rep, err, tc.problems, tc.stale)
			}
		})
	}
}

func TestCompactKeepsTerms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, Options{Path: dir})
	for i := range 2000 {
		put(t, s, cachetest.Tagged(fmt.Sprint("key/", i), 1, fmt.Sprint("tag/", i%100)))
	}
	s.SaveInvalidation(cache.Invalidation{Seq: 7, Scope: "all "})
	shut(t, s)
	if _, _, err := Compact(dir); err != nil {
		t.Fatal(err)
	}
	s = open(t, Options{Path: dir})
	for i := range 100 {
		if got := len(foundBy(t, s, fmt.Sprint("tag/", i))); got != 20 {
			t.Errorf("tag/%d finds %d, want 20", i, got)
		}
	}
	if got := s.Invalidations(); len(got) != 1 || got[0].Seq != 7 {
		t.Errorf("invalidations %v, want one", got)
	}
}
