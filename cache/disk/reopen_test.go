package disk

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/cachetest"
)

// sizes are bodies on both sides of the limit between database and file.
var sizes = []int{0, 1, 1000, maxInline, maxInline + 1, 3 << 20}

func fill(t testing.TB, s *Store, token uint64) {
	t.Helper()
	for _, size := range sizes {
		put(t, s, cachetest.Record(fmt.Sprint("key/", size), token, size))
	}
	flushed(t, s)
}

func put(t testing.TB, s cache.Store, r *cache.Record) {
	t.Helper()
	if got := s.Put(r); got != cache.PutStored {
		t.Errorf("put %q, %d bytes: %v", r.Key, r.Body.Size(), got)
	}
}

func flushed(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Sync(t.Context()); err != nil {
		t.Errorf("Sync: %v", err)
	}
}

// wantFilled checks that all that fill put is there, byte for byte.
func wantFilled(t testing.TB, s *Store, token uint64) {
	t.Helper()
	for _, size := range sizes {
		wantRecord(t, s, cachetest.Record(fmt.Sprint("key/", size), token, size))
	}
}

func wantRecord(t testing.TB, s cache.Store, want *cache.Record) {
	t.Helper()
	got, ok := s.Get(want.Key)
	if !ok {
		t.Errorf("%q: miss", want.Key)
		return
	}
	want.Life = got.Life // holds the time of the test
	if diff := cachetest.Diff(want, got); diff != "" {
		t.Errorf("%q (-want +got):\n%s", want.Key, diff)
	}
}

func wantMiss(t testing.TB, s cache.Store, key string) {
	t.Helper()
	if _, ok := s.Get(key); ok {
		t.Errorf("%q: hit, want a miss", key)
	}
}

func TestReopen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for token := uint64(1); token <= 3; token++ {
		s := open(t, Options{Path: dir})
		if token > 1 {
			wantFilled(t, s, token-1)
			if got := s.MaxToken(); got != token-1 {
				t.Errorf("MaxToken %d, want %d", got, token-1)
			}
			if got := s.Stats().Records; got != int64(len(sizes)) {
				t.Errorf("%d records after opening, want %d", got, len(sizes))
			}
		}
		fill(t, s, token)
		wantFilled(t, s, token)
		cachetest.CheckInvariants(t, s)
		shut(t, s)
	}
	if rep := wantSound(t, dir); rep.Records != int64(len(sizes)) || rep.Orphans != 0 {
		t.Errorf("report %+v, want %d records and no orphans: files of replaced bodies stay", rep, len(sizes))
	}
}

// Close writes what is queued.
func TestCloseFlushes(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{Path: dir, Linger: time.Hour})
	put(t, s, cachetest.Record("a", 1, 10))
	put(t, s, cachetest.Record("b", 1, 100_000))
	shut(t, s)
	s = open(t, Options{Path: dir})
	wantRecord(t, s, cachetest.Record("a", 1, 10))
	wantRecord(t, s, cachetest.Record("b", 1, 100_000))
}

// A context that has ended keeps Close from writing, not from closing.
func TestCloseGivesUp(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{Path: dir, Linger: time.Hour})
	put(t, s, cachetest.Record("a", 1, 10))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Close(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("Close: %v", err)
	}
	open(t, Options{Path: dir}) // the path is free again
}

func TestDeleteSurvivesRestart(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{Path: dir})
	fill(t, s, 1)
	for _, size := range sizes {
		if !s.Delete(fmt.Sprint("key/", size), 1) {
			t.Errorf("%d: nothing deleted", size)
		}
	}
	shut(t, s)
	if rep := wantSound(t, dir); rep.Records != 0 || rep.Orphans != 0 {
		t.Errorf("report %+v, want an empty store", rep)
	}
	s = open(t, Options{Path: dir})
	for _, size := range sizes {
		wantMiss(t, s, fmt.Sprint("key/", size))
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, Options{Path: dir})
	start := time.Now()
	_, err := Open(Options{Path: dir})
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), fmt.Sprint("pid ", os.Getpid())) {
		t.Errorf("second Open: %v, want ErrInUse naming path and process", err)
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("second Open took %v", took)
	}
	if _, err := Check(t.Context(), dir); !errors.Is(err, ErrInUse) {
		t.Errorf("Check of an open store: %v, want ErrInUse", err)
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{
		"no path":        {},
		"tiny budget":    {Path: dir, Max: 1000},
		"path is a file": {Path: file},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if s, err := Open(o); err == nil {
				shut(t, s)
				t.Error("opened")
			}
		})
	}
}

// events collects what a store tells.
type events struct{ ch chan Event }

func newEvents() events { return events{make(chan Event, 1000)} }

func (e events) notify(ev Event) { e.ch <- ev }

func (e events) kinds() (list []EventKind) {
	for {
		select {
		case ev := <-e.ch:
			list = append(list, ev.Kind)
		default:
			return list
		}
	}
}

// A database that can not be read is moved aside, once told, and the store works.
func TestQuarantine(t *testing.T) {
	t.Parallel()
	path := func(dir string) string { return filepath.Join(dir, indexName) }
	for name, spoil := range map[string]func(t *testing.T, dir string){
		"garbage": func(t *testing.T, dir string) {
			writeFile(t, path(dir), []byte(strings.Repeat("garbage!", 10_000)))
		},
		"too short for a page": func(t *testing.T, dir string) { truncate(t, path(dir), 100) },
		"cut in half": func(t *testing.T, dir string) {
			fi, err := os.Stat(path(dir))
			if err != nil {
				t.Fatal(err)
			}
			truncate(t, path(dir), fi.Size()/2)
		},
		"both metas zeroed": func(t *testing.T, dir string) {
			overwrite(t, path(dir), 0, make([]byte, 2*os.Getpagesize()))
		},
		"unknown version": func(t *testing.T, dir string) {
			editIndex(t, dir, func(tx *bbolt.Tx) error {
				return tx.Bucket(bucketMeta).Put(keyFormat, binary.BigEndian.AppendUint32(nil, formatVersion+1))
			})
		},
		"earlier version": func(t *testing.T, dir string) {
			editIndex(t, dir, func(tx *bbolt.Tx) error {
				return tx.Bucket(bucketMeta).Put(keyFormat, binary.BigEndian.AppendUint32(nil, upgradable-1))
			})
		},
		"somebody else's database": func(t *testing.T, dir string) {
			editIndex(t, dir, func(tx *bbolt.Tx) error { return tx.DeleteBucket(bucketMeta) })
		},
		"bucket missing": func(t *testing.T, dir string) {
			editIndex(t, dir, func(tx *bbolt.Tx) error { return tx.DeleteBucket(bucketOrder) })
		},
		"short state": func(t *testing.T, dir string) {
			editIndex(t, dir, func(tx *bbolt.Tx) error { return tx.Bucket(bucketMeta).Put(keyState, []byte("short")) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := open(t, Options{Path: dir})
			fill(t, s, 1)
			shut(t, s)
			spoil(t, dir)
			ev := newEvents()
			s = open(t, Options{Path: dir, Notify: ev.notify})
			if kinds := ev.kinds(); len(kinds) != 1 || kinds[0] != EventQuarantined {
				t.Errorf("events %v, want one %v", kinds, EventQuarantined)
			}
			wantMiss(t, s, "key/1000")
			fill(t, s, 2)
			wantFilled(t, s, 2)
			if _, err := os.Stat(filepath.Join(dir, brokenName)); err != nil {
				t.Errorf("nothing was moved aside: %v", err)
			}
		})
	}
}

// Pages that turn out to be damaged while the store runs do not end the process: the store starts empty and goes on.
func TestDamagedPagesWhileOpen(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{Path: dir})
	for i := range 2000 {
		put(t, s, cachetest.Record(fmt.Sprint("key/", i), 1, 500))
	}
	shut(t, s)
	zeroPages(t, filepath.Join(dir, indexName), 2)
	ev := newEvents()
	s = open(t, Options{Path: dir, Notify: ev.notify})
	for i := range 2000 {
		if r, ok := s.Get(fmt.Sprint("key/", i)); ok {
			if err := cachetest.Verify(r.Key, r); err != nil {
				t.Error(err)
			}
		}
	}
	_ = s.Sync(t.Context()) // may fail once
	fill(t, s, 2)
	wantFilled(t, s, 2)
	if kinds := ev.kinds(); !slices.Contains(kinds, EventQuarantined) {
		t.Errorf("events %v, want %v among them", kinds, EventQuarantined)
	}
}

// zeroPages overwrites all pages from first on.
func zeroPages(t *testing.T, path string, first int) {
	t.Helper()
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	page := int64(os.Getpagesize())
	overwrite(t, path, int64(first)*page, nil)
	keep := metaPages(t, path)
	for p := int64(first); p < fi.Size()/page; p++ {
		if !keep[p] {
			overwrite(t, path, p*page, make([]byte, page))
		}
	}
}

// metaPages are the pages without which the database does not open: the root, the list of free pages, the meta bucket.
func metaPages(t *testing.T, path string) map[int64]bool {
	t.Helper()
	keep := map[int64]bool{}
	db, err := bbolt.Open(path, 0o600, indexOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.View(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{bucketMeta, bucketBodies, bucketFiles, bucketOrder, bucketFileOrder} {
			keep[int64(tx.Bucket(name).Root())] = true
		}
		for id := 0; ; id++ {
			info, err := tx.Page(id)
			if err != nil || info == nil {
				return err
			}
			if info.Type == "freelist" || info.ID == int(tx.Cursor().Bucket().Root()) {
				for n := range info.OverflowCount + 1 {
					keep[int64(id+n)] = true
				}
			}
			id += info.OverflowCount
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return keep
}

func writeFile(t *testing.T, path string, p []byte) {
	t.Helper()
	if err := os.WriteFile(path, p, 0o600); err != nil {
		t.Fatal(err)
	}
}

func truncate(t *testing.T, path string, size int64) {
	t.Helper()
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

func overwrite(t *testing.T, path string, at int64, p []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(p, at); err != nil {
		t.Fatal(err)
	}
}

// editIndex changes the database of a closed store.
func editIndex(t *testing.T, dir string, f func(*bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(dir, indexName), 0o600, indexOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Update(f); err != nil {
		t.Fatal(err)
	}
}
