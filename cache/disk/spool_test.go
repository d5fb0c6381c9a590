package disk

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/cachetest"
)

// spooled writes the body of a record to a spool and gives the record that body.
func spooled(t *testing.T, s *Store, r *cache.Record) cache.Spool {
	t.Helper()
	sp, err := s.NewSpool()
	if err != nil {
		t.Fatal(err)
	}
	p, _ := r.Body.Bytes()
	for part := range bytesIn(p, 100_000) {
		if _, err := sp.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	if r.Body, err = sp.Body(); err != nil {
		t.Fatal(err)
	}
	return sp
}

func bytesIn(p []byte, n int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(p) > 0 {
			k := min(n, len(p))
			if !yield(p[:k]) {
				return
			}
			p = p[k:]
		}
	}
}

func inode(t *testing.T, b cache.Body) os.FileInfo {
	t.Helper()
	f, err := b.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	file, ok := f.(*os.File)
	if !ok {
		t.Fatalf("body opens as %T, want *os.File", f)
	}
	fi, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return fi
}

// A spool is read while it is written, taken over by Put without a copy, and readable throughout.
func TestSpool(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{Path: dir, Linger: time.Hour})
	want := cachetest.Record("a", 1, 3<<20)
	r := cachetest.Record("a", 1, 3<<20)
	content, _ := want.Body.Bytes()
	sp := spooled(t, s, r)
	got := make([]byte, len(content))
	if n, err := sp.ReadAt(got, 0); n != len(got) || err != nil && err != io.EOF || !bytes.Equal(got, content) {
		t.Errorf("ReadAt: %d, %v", n, err)
	}
	if n, err := sp.ReadAt(got, sp.Size()); n != 0 || err != io.EOF {
		t.Errorf("ReadAt the end: %d, %v, want EOF", n, err)
	}
	if _, err := sp.Write(content); err == nil {
		t.Error("Write after Body succeeded")
	}
	before := inode(t, r.Body)
	put(t, s, r)
	if err := sp.Close(); err != nil {
		t.Error(err)
	}
	wantRecord(t, s, want)
	flushed(t, s)
	wantRecord(t, s, want)
	wantRecord(t, s, r) // the handle that was put works on
	if after := inode(t, r.Body); !os.SameFile(before, after) {
		t.Error("the body was copied")
	}
	if got := s.gauges.spooled.Load(); got != 0 {
		t.Errorf("%d bytes count as spooled", got)
	}
	shut(t, s)
	s = open(t, Options{Path: dir})
	wantRecord(t, s, want)
}

func TestSpoolGivenUp(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *Store, cache.Spool, *cache.Record){
		"closed without a put": func(*testing.T, *Store, cache.Spool, *cache.Record) {},
		"put refused as older": func(t *testing.T, s *Store, _ cache.Spool, r *cache.Record) {
			put(t, s, cachetest.Record("a", 9, 10))
			if got := s.Put(r); got != cache.PutOlder {
				t.Errorf("put: %v", got)
			}
		},
		"overtaken in the queue": func(t *testing.T, s *Store, _ cache.Spool, r *cache.Record) {
			put(t, s, r)
			put(t, s, cachetest.Record("a", 9, 10))
		},
		"deleted in the queue": func(t *testing.T, s *Store, _ cache.Spool, r *cache.Record) {
			put(t, s, r)
			s.Delete("a", 9)
		},
		"deleted after the commit": func(t *testing.T, s *Store, _ cache.Spool, r *cache.Record) {
			put(t, s, r)
			flushed(t, s)
			s.Delete("a", 9)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, Options{Path: dir, Linger: time.Hour})
			want := cachetest.Record("a", 1, 200_000)
			r := cachetest.Record("a", 1, 200_000)
			sp := spooled(t, s, r)
			reader, err := r.Body.Open()
			if err != nil {
				t.Fatal(err)
			}
			end(t, s, sp, r)
			if err := errors.Join(sp.Close(), sp.Close()); err != nil {
				t.Error(err)
			}
			flushed(t, s)
			for _, pattern := range []string{"spool/*", "bodies/*/*"} {
				if left, _ := filepath.Glob(filepath.Join(dir, pattern)); len(left) != 0 {
					t.Errorf("files left: %v", left)
				}
			}
			content, _ := want.Body.Bytes()
			if got, err := io.ReadAll(reader); err != nil || !bytes.Equal(got, content) {
				t.Errorf("a reader lost its body: %d bytes, %v", len(got), err)
			}
			_ = reader.Close()
			if got := s.gauges.spooled.Load(); got != 0 {
				t.Errorf("%d bytes count as spooled", got)
			}
		})
	}
}

// Spools may not take the whole budget, and older records make room for them.
func TestSpoolsKeepTheBudget(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const limit = 16 << 20
	s := open(t, Options{Path: dir, Max: limit})
	for i := range 100 {
		put(t, s, cachetest.Record(string(rune('a'+i)), 1, 200_000))
	}
	flushed(t, s)
	sp, err := s.NewSpool()
	if err != nil {
		t.Fatal(err)
	}
	defer sp.Close()
	part := make([]byte, 100_000)
	for {
		if _, err = sp.Write(part); err != nil {
			break
		}
		flushed(t, s)
		if got := onDisk(t, dir); got > limit {
			t.Fatalf("%d bytes on disk, budget %d", got, limit)
		}
	}
	if !errors.Is(err, ErrNoRoom) || sp.Size() < limit/2-200_000 {
		t.Errorf("the spool ended after %d bytes: %v", sp.Size(), err)
	}
}

// A record that is stored anew with the body it has, as after a 304 or under another key, keeps that body without a copy.
func TestBodyIsKept(t *testing.T) {
	for _, size := range []int{1000, 200_000} {
		dir := t.TempDir()
		s := open(t, Options{Path: dir})
		first := cachetest.Record("a", 1, size)
		put(t, s, first)
		flushed(t, s)
		stored := walked(t, s)["a"]
		fresh := *stored
		fresh.Token = 2
		put(t, s, &fresh)
		moved := *stored
		moved.Key, moved.Token = "b", 3
		flushed(t, s)
		put(t, s, &moved)
		put(t, s, &cache.Record{Key: "a", Primary: "a", Token: 4, Index: &cache.Index{Variants: []string{"b"}}})
		flushed(t, s)
		for range 2 {
			want := *cachetest.Record("a", 1, size)
			want.Key, want.Token = "b", 3
			want.StoredAt = stored.StoredAt
			wantRecord(t, s, &want)
			if rep := s.Stats(); rep.Records != 2 || rep.Damaged != 0 {
				t.Errorf("%d bytes: stats %+v", size, rep)
			}
			shut(t, s)
			wantSound(t, dir)
			s = open(t, Options{Path: dir})
		}
		if !s.Delete("b", 9) {
			t.Error("nothing to delete")
		}
		shut(t, s)
		if rep := wantSound(t, dir); rep.Bytes != 0 || rep.Orphans != 0 {
			t.Errorf("%d bytes: report %+v, want nothing left", size, rep)
		}
	}
}

func walked(t *testing.T, s *Store) map[string]*cache.Record {
	t.Helper()
	m := map[string]*cache.Record{}
	s.Walk(func(r *cache.Record) bool { m[r.Key] = r; return true })
	return m
}

// A refresh that brings the body that is stored already writes metadata only; any other body is written.
func TestUnchangedBodyIsNotWritten(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 1000, maxInline, maxInline + 1, 500_000} {
		dir := t.TempDir()
		s := open(t, Options{Path: dir})
		first := cachetest.Record("a", 1, size)
		put(t, s, first)
		flushed(t, s)
		id := func() uint64 { return walked(t, s)["a"].Body.Source().(*body).ref.id }
		before := id()
		again := cachetest.Record("a", 2, 0)
		again.Body = cache.MemoryBody(cachetest.Content("a", 1, size))
		put(t, s, again)
		flushed(t, s)
		wantRecord(t, s, again)
		if got := id(); got != before {
			t.Errorf("%d bytes: the same body was written again", size)
		}
		put(t, s, cachetest.Record("a", 3, size))
		flushed(t, s)
		wantRecord(t, s, cachetest.Record("a", 3, size))
		if got := id(); got == before {
			t.Errorf("%d bytes: another body was not written", size)
		}
		shut(t, s)
		if rep := wantSound(t, dir); rep.Records != 1 || rep.Orphans != 0 {
			t.Errorf("report %+v", rep)
		}
	}
}
