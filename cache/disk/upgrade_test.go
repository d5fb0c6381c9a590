package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/cachetest"
)

const oldRecords = 2000

// oldDir is the directory of a store of the version before.
func oldDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s, err := Open(Options{Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	for i := range oldRecords {
		put(t, s, oldRecord(i))
	}
	shut(t, s)
	editIndex(t, dir, func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{bucketTerms, bucketTermLog, bucketJournal} {
			if err := tx.DeleteBucket(name); err != nil {
				return err
			}
		}
		meta := tx.Bucket(bucketMeta)
		if err := meta.Put(keyState, slices.Clone(meta.Get(keyState)[:upgradableSize])); err != nil {
			return err
		}
		return meta.Put(keyFormat, binary.BigEndian.AppendUint32(nil, upgradable))
	})
	return dir
}

func oldRecord(i int) *cache.Record {
	size := 100
	if i%500 == 0 {
		size = maxInline + 1
	}
	r := cachetest.Record(fmt.Sprint("key/", i), uint64(i+1), size)
	if r.Tags = nil; i%4 > 0 {
		r.Tags = []string{"all", fmt.Sprint("tag/", i%100)}
	}
	return r
}

func wantUpgraded(t *testing.T, dir string) {
	t.Helper()
	for _, want := range [][]EventKind{{EventUpgraded}, nil} {
		ev := newEvents()
		s := open(t, Options{Path: dir, Notify: ev.notify})
		if got := ev.kinds(); !slices.Equal(got, want) {
			t.Errorf("events %v, want %v", got, want)
		}
		var all []string
		for i := range oldRecords {
			r := oldRecord(i)
			wantRecord(t, s, r)
			if r.HasTerms() {
				all = append(all, r.Key)
			}
		}
		wantFound(t, s, "all", all...)
		for i := range 100 {
			if got, want := len(foundBy(t, s, fmt.Sprint("tag/", i))), oldRecords/100; i%4 > 0 && got != want {
				t.Errorf("tag/%d finds %d, want %d", i, got, want)
			}
		}
		if got := s.MaxToken(); got != oldRecords {
			t.Errorf("MaxToken %d, want %d", got, oldRecords)
		}
		wantInvalidations(t, s)
		shut(t, s)
		if rep := wantSound(t, dir); rep.Records != oldRecords {
			t.Errorf("report %+v", rep)
		}
	}
	s := open(t, Options{Path: dir})
	for i := range oldRecords { // what was upgraded can be changed
		s.Delete(fmt.Sprint("key/", i), oldRecords)
		put(t, s, cachetest.Tagged(fmt.Sprint("new/", i), oldRecords+1, fmt.Sprint("new/", i)))
	}
	flushed(t, s)
	wantFound(t, s, "all")
}

func TestUpgrade(t *testing.T) {
	t.Parallel()
	wantUpgraded(t, oldDir(t))
}

// What looks at a store changes nothing.
func TestCheckDoesNotUpgrade(t *testing.T) {
	t.Parallel()
	dir := oldDir(t)
	if _, err := Check(t.Context(), dir); !errors.Is(err, errFormat) {
		t.Errorf("Check: %v, want errFormat", err)
	}
	if _, _, err := Compact(dir); !errors.Is(err, errFormat) {
		t.Errorf("Compact: %v, want errFormat", err)
	}
	wantUpgraded(t, dir)
}

// A process may end after any transaction of an upgrade: the next start makes it anew.
func TestUpgradeBrokenOff(t *testing.T) {
	t.Parallel()
	errStop := errors.New("stop")
	for last := 1; ; last++ {
		dir := oldDir(t)
		db, err := bbolt.Open(filepath.Join(dir, indexName), 0o600, indexOptions())
		if err != nil {
			t.Fatal(err)
		}
		u := upgrade{db: db, max: 1000} // several passes
		n := 0
		u.committed = func() error {
			if n++; n == last {
				return errStop
			}
			return nil
		}
		err = u.run()
		if cerr := db.Close(); cerr != nil {
			t.Fatal(cerr)
		}
		if err == nil {
			if last < 5 {
				t.Errorf("only %d transactions", n)
			}
			return
		}
		if last%3 == 1 {
			wantUpgraded(t, dir)
		}
	}
}

// Several passes over the values make the same index as one.
func TestUpgradePasses(t *testing.T) {
	t.Parallel()
	for _, entries := range []int{100, 999, 2999, 3000, 3001, 10_000} {
		dir := oldDir(t)
		db, err := bbolt.Open(filepath.Join(dir, indexName), 0o600, indexOptions())
		if err != nil {
			t.Fatal(err)
		}
		u := upgrade{db: db, max: entries}
		if err := u.run(); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		s := open(t, Options{Path: dir}) // its end checks it
		if got, want := s.w.st.terms, uint64(oldRecords/4*3*2); got != want {
			t.Errorf("%d in memory: %d entries, want %d", entries, got, want)
		}
	}
}
