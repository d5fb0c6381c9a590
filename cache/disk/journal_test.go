package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/cachetest"
)

func wantInvalidations(t testing.TB, s *Store, want ...uint64) {
	t.Helper()
	var got []uint64
	for _, inv := range s.Invalidations() {
		got = append(got, inv.Seq)
	}
	if !slices.Equal(got, want) {
		t.Errorf("invalidations %d, want %d", got, want)
	}
}

func save(s *Store, seqs ...uint64) {
	for _, seq := range seqs {
		s.SaveInvalidation(cache.Invalidation{Seq: seq, Scope: "all "})
	}
}

// Whichever transaction was the last: what an invalidation reached is gone, or the invalidation is there; and with what it reached it is not
// there before its time.
func TestJournalOrder(t *testing.T) {
	t.Parallel()
	const keys = 20
	for last := 0; ; last++ {
		dir := t.TempDir()
		left := -1 // transactions until the disk fails
		s := open(t, Options{Path: dir, Max: minMax, Linger: time.Hour, RetryFirst: time.Hour, fault: func(at fault) error {
			if at == faultCommit {
				if left == 0 {
					return syscall.EIO
				}
				left--
			}
			return nil
		}})
		for i := range uint64(keys) {
			put(t, s, cachetest.Record(fmt.Sprint("key/", i), i, 10))
		}
		flushed(t, s)
		left = last
		put(t, s, cachetest.Record("before", 1, 10))
		save(s, 100)
		for i := range uint64(keys) {
			s.Delete(fmt.Sprint("key/", i), 100)
		}
		s.DropInvalidation(100)
		put(t, s, cachetest.Record("after", 101, 10))
		err := s.Sync(t.Context())
		ended := left != 0
		left = -1
		copied := t.TempDir()
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil { // nothing is written meanwhile: the store waits an hour
			t.Fatal(err)
		}
		s = open(t, Options{Path: copied})
		wantPurged(t, s, keys)
		if ended {
			if err != nil {
				t.Errorf("Sync: %v", err)
			}
			if last < 4 {
				t.Errorf("all was in %d transactions: the test shows nothing", last)
			}
			wantInvalidations(t, s)
			return
		}
	}
}

func wantPurged(t *testing.T, s *Store, keys int) {
	t.Helper()
	n := 0
	for i := range keys {
		if _, ok := s.Get(fmt.Sprint("key/", i)); ok {
			n++
		}
	}
	_, before := s.Get("before")
	_, after := s.Get("after")
	pending := len(s.Invalidations()) > 0
	switch {
	case pending && !before, !pending && before && n > 0 && n < keys, after && (pending || n > 0):
		t.Errorf("put before it %t, invalidation %t, %d records that it reaches, put after it %t", before, pending, n, after)
	}
}

// While the disk fails the queue stays bounded, and what it says of the journal in the end is right.
func TestJournalOfFailingDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := &faulty{at: faultCommit}
	s := open(t, Options{Path: dir, Linger: time.Hour, RetryFirst: time.Hour, RetryMax: time.Hour, fault: f.fault, changes: 50})
	save(s, 1, 2, 3)
	put(t, s, cachetest.Record("old", 4, 10))
	flushed(t, s)
	f.on.Store(true)
	save(s, 5)
	s.DropInvalidation(2)
	if err := s.Sync(t.Context()); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Sync: %v, want ENOSPC", err)
	}
	for i := range uint64(1000) {
		save(s, 10+i)
		if i%100 > 0 {
			s.DropInvalidation(10 + i)
		}
		if n := s.queueLen(); n > 60 {
			t.Fatalf("%d changes wait", n)
		}
	}
	s.DropInvalidation(1)
	s.Delete("old", 4)
	want := []uint64{3, 5, 10, 110, 210, 310, 410, 510, 610, 710, 810, 910}
	wantInvalidations(t, s, want...)
	f.on.Store(false)
	shut(t, s) // tries once more
	s = open(t, Options{Path: dir})
	wantInvalidations(t, s, want...)
	wantMiss(t, s, "old")
}

// A database that is replaced while the store runs leaves the journal to the new one: what is in the queue goes there, too.
func TestJournalOfReplacedDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, Options{Path: dir, Linger: time.Hour})
	save(s, 1, 2, 3)
	flushed(t, s)
	s.DropInvalidation(2)
	save(s, 4)
	put(t, s, cachetest.Record("a", 5, 10))
	s.report(fmt.Errorf("%w: on purpose", errBroken))
	flushed(t, s)
	wantRecord(t, s, cachetest.Record("a", 5, 10))
	if _, err := os.Stat(filepath.Join(dir, brokenName)); err != nil {
		t.Errorf("nothing was moved aside: %v", err)
	}
	for range 2 {
		wantInvalidations(t, s, 1, 3, 4)
		shut(t, s)
		s = open(t, Options{Path: dir})
	}
}

// An invalidation that can not be read is not passed over: what it keeps away could come back.
func TestDamagedJournal(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(k, v []byte) (k2, v2 []byte){
		"scope":  func(k, v []byte) ([]byte, []byte) { v[len(v)-1] ^= 1; return k, v },
		"flags":  func(k, v []byte) ([]byte, []byte) { v[8] ^= 1; return k, v },
		"number": func(k, v []byte) ([]byte, []byte) { k[7] ^= 1; return k, v },
		"short":  func(k, v []byte) ([]byte, []byte) { return k, v[:5] },
		"key":    func(k, v []byte) ([]byte, []byte) { return k[:9], v },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := open(t, Options{Path: dir})
			put(t, s, cachetest.Record("a", 1, 10))
			save(s, 5)
			shut(t, s)
			editIndex(t, dir, func(tx *bbolt.Tx) error {
				b := tx.Bucket(bucketJournal)
				k, v := b.Cursor().First()
				k2, v2 := spoil(slices.Clone(k), slices.Clone(v))
				if err := b.Delete(k); err != nil {
					return err
				}
				return b.Put(k2, v2)
			})
			ev := newEvents()
			s = open(t, Options{Path: dir, Notify: ev.notify})
			if kinds := ev.kinds(); !slices.Equal(kinds, []EventKind{EventQuarantined}) {
				t.Errorf("events %v, want %v", kinds, EventQuarantined)
			}
			wantMiss(t, s, "a")
			wantInvalidations(t, s)
		})
	}
}
