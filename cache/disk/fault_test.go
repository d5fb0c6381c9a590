package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/cachetest"
)

// faulty makes a store fail at one place while on is set.
type faulty struct {
	at fault
	on atomic.Bool
}

func (f *faulty) fault(p fault) error {
	if p == f.at && f.on.Load() {
		return &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
	}
	return nil
}

// A disk that fails at any step costs no reader anything: what is queued stays readable, writes are refused until the disk
// works again, nothing that was overtaken comes back, and everything is told once.
func TestFailingDisk(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]fault{"write": faultWrite, "sync": faultSync, "rename": faultRename, "commit": faultCommit} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			f, ev := &faulty{at: at}, newEvents()
			s := open(t, Options{Path: dir, Notify: ev.notify, Linger: time.Hour, RetryFirst: time.Hour, RetryMax: time.Hour, fault: f.fault})
			fill(t, s, 1)
			f.on.Store(true)
			for _, size := range sizes { // queued before the failure is known
				put(t, s, cachetest.Record(fmt.Sprint("key/", size), 2, size))
			}
			if err := s.Sync(t.Context()); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("Sync: %v, want ENOSPC", err)
			}
			wantFilled(t, s, 2)
			if got := s.Put(cachetest.Record("new", 3, 10)); got != cache.PutRefused {
				t.Errorf("put while failing: %v", got)
			}
			if got := s.Put(cachetest.Record("key/1000", 3, 1000)); got != cache.PutRefused {
				t.Errorf("update while failing: %v", got)
			}
			wantMiss(t, s, "key/1000")
			if !s.Metrics().Failing {
				t.Error("the store does not say that it is failing")
			}
			f.on.Store(false)
			shut(t, s) // tries once more
			if kinds := ev.kinds(); !slices.Equal(kinds, []EventKind{EventFailing, EventRecovered}) {
				t.Errorf("events %v", kinds)
			}
			s = open(t, Options{Path: dir})
			wantMiss(t, s, "key/1000")
			put(t, s, cachetest.Record("key/1000", 2, 1000))
			wantFilled(t, s, 2)
		})
	}
}

// The store tries again by itself.
func TestRecovery(t *testing.T) {
	f, ev := &faulty{at: faultCommit}, newEvents()
	s := open(t, Options{Notify: ev.notify, RetryFirst: time.Millisecond, RetryMax: 2 * time.Millisecond, Linger: -1, fault: f.fault})
	f.on.Store(true)
	put(t, s, cachetest.Record("a", 1, 100_000))
	for e := range ev.ch {
		if e.Kind == EventFailing {
			break
		}
	}
	f.on.Store(false)
	for e := range ev.ch {
		if e.Kind == EventRecovered {
			break
		}
	}
	put(t, s, cachetest.Record("b", 1, 10))
	flushed(t, s)
	wantRecord(t, s, cachetest.Record("a", 1, 100_000))
	if got := s.Stats().Records; got != 2 {
		t.Errorf("%d records, want 2", got)
	}
}

// If more changes wait for a failing disk than can be remembered, what they overtook stays away all the same.
func TestFloor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := &faulty{at: faultCommit}
	s := open(t, Options{Path: dir, Linger: time.Hour, RetryFirst: time.Hour, RetryMax: time.Hour, fault: f.fault, changes: 2000})
	const n = 2100
	for i := range n {
		put(t, s, &cache.Record{Key: fmt.Sprint(i), Primary: fmt.Sprint(i), Token: uint64(i + 1)})
		if i%1000 == 0 {
			flushed(t, s)
		}
	}
	put(t, s, &cache.Record{Key: "late", Primary: "late", Token: 10 * n})
	flushed(t, s)
	f.on.Store(true)
	put(t, s, &cache.Record{Key: "x", Primary: "x", Token: 1})
	if err := s.Sync(t.Context()); err == nil {
		t.Fatal("Sync succeeded on a failing disk")
	}
	for i := range n {
		s.Put(&cache.Record{Key: fmt.Sprint(i), Primary: fmt.Sprint(i), Token: uint64(n + i)})
	}
	check := func() {
		t.Helper()
		for i := range n {
			if r, ok := s.Get(fmt.Sprint(i)); ok && r.Token < uint64(n) {
				t.Fatalf("%d: token %d came back", i, r.Token)
			}
		}
		if _, ok := s.Get("late"); !ok {
			t.Error("a record above all that was overtaken is gone")
		}
	}
	check()
	f.on.Store(false)
	shut(t, s)
	s = open(t, Options{Path: dir})
	check()
}

// A queue that overflows drops its oldest writes, counts them, and brings nothing back that they overtook.
func TestOverflow(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{Path: dir, Linger: time.Hour, Queue: 100 << 10})
	put(t, s, cachetest.Record("key/0", 1, 1000))
	flushed(t, s)
	const n = 50
	for i := range n {
		put(t, s, cachetest.Record(fmt.Sprint("key/", i), 2, 20_000))
		if _, ok := s.Get(fmt.Sprint("key/", i)); !ok {
			t.Errorf("%d: not seen at once", i)
		}
	}
	dropped := 0
	for i := range n {
		if _, ok := s.Get(fmt.Sprint("key/", i)); !ok {
			dropped++
		}
	}
	if got := s.Metrics(); got.Dropped != int64(dropped) || dropped == 0 || got.Queued > 200<<10 {
		t.Errorf("%d misses, %d counted as dropped, %d bytes queued", dropped, got.Dropped, got.Queued)
	}
	if r, ok := s.Get("key/0"); ok && r.Token == 1 {
		t.Error("the record under a dropped write came back")
	}
	flushed(t, s)
	if r, ok := s.Get("key/0"); ok && r.Token == 1 {
		t.Error("the record under a dropped write came back")
	}
}

// Budgets hold on disk, for any mix of sizes, at every moment.
func TestBudgetOnDisk(t *testing.T) {
	t.Parallel()
	const limit = 8 << 20
	for name, size := range map[string]func(i int) int{
		"small":                  func(i int) int { return i * 37 % 3000 },
		"up to 64Ki":             func(i int) int { return i * 7919 % maxInline },
		"files":                  func(i int) int { return maxInline + i*7919%(500<<10) },
		"mixed":                  func(i int) int { return i * i * 7919 % (300 << 10) },
		"then files":             func(i int) int { return 500 + i/150*200_000 },
		"small full, then files": func(i int) int { return 30_000 + i/600*300_000 },
		"then small":             func(i int) int { return 500_000/(1+i/60) + 100 },
		"one size 4K":            func(i int) int { return 4096 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := open(t, Options{Path: dir, Max: limit})
			total := int64(0)
			for i := 0; total < 3*limit && i < 6000; i++ {
				r := cachetest.Record(fmt.Sprint("key/", i), uint64(i+1), size(i))
				total += r.Cost()
				put(t, s, r)
				if i%60 == 0 {
					flushed(t, s)
					if got := onDisk(t, dir); got > limit {
						t.Fatalf("after %d records: %d bytes on disk, budget %d", i, got, limit)
					}
				}
			}
			flushed(t, s)
			st := s.Stats()
			t.Logf("%d records, %.1f MiB of %d, %d on disk, evicted %d, %+v", st.Records, float64(st.Bytes)/(1<<20), limit>>20, onDisk(t, dir), st.Evicted, s.Metrics())
			if total > 2*limit && st.Bytes < limit/2 {
				t.Errorf("only %d bytes of %d are used", st.Bytes, limit)
			}
			cachetest.CheckInvariants(t, s)
		})
	}
}

func onDisk(t *testing.T, dir string) (total int64) {
	t.Helper()
	err := filepath.Walk(dir, func(_ string, fi os.FileInfo, err error) error {
		if err == nil && fi.Mode().IsRegular() {
			total += fi.Size()
		}
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return total
}

// Records that are read stay, those that nobody reads go; among the latter large ones first.
func TestEvictionOrder(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Max: 8 << 20})
	for i := range 20 {
		put(t, s, cachetest.Record(fmt.Sprint("hot/", i), 1, 10_000))
		put(t, s, cachetest.Record(fmt.Sprint("small/", i), 1, 100))
	}
	for i := range 500 {
		put(t, s, cachetest.Record(fmt.Sprint("scan/", i), 1, 40_000))
		for j := range 20 {
			if _, ok := s.Get(fmt.Sprint("hot/", j)); !ok {
				t.Fatalf("hot record %d is gone after %d others", j, i)
			}
		}
		if i%10 == 0 {
			flushed(t, s)
		}
	}
	if st := s.Stats(); st.Evicted < 200 {
		t.Errorf("stats %+v: too few evicted for the test to show anything", st)
	}
}

// A sweep that stores every record again, with the token it has, loses none of them, however short the queue.
func TestSweepDoesNotOverflow(t *testing.T) {
	s := open(t, Options{Queue: 100 << 10, Linger: -1})
	const n = 500
	for i := range n {
		put(t, s, cachetest.Record(fmt.Sprint("key/", i), 1, 2000))
		if i%20 == 0 {
			flushed(t, s)
		}
	}
	flushed(t, s)
	s.Walk(func(r *cache.Record) bool {
		expired := *r
		expired.Life = r.Life.Expire(time.Now())
		put(t, s, &expired)
		return true
	})
	flushed(t, s)
	if m := s.Metrics(); m.Dropped != 0 || s.Stats().Records != n {
		t.Errorf("%d of %d records left, %d writes dropped", s.Stats().Records, n, m.Dropped)
	}
	s.Walk(func(r *cache.Record) bool {
		if r.Life.TTL(time.Now()) > 0 {
			t.Errorf("%q is fresh after the sweep", r.Key)
		}
		return true
	})
}
