package tiered

import (
	"bytes"
	"context"
	"fmt"
	"hash/maphash"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/cachetest"
	"github.com/swrproxy/swrproxy/cache/disk"
	"github.com/swrproxy/swrproxy/cache/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	cachetest.Run(t, func(t *testing.T) cache.Store { return open(t, t.TempDir(), cachetest.Budget, cachetest.Budget) })
}

// TestContractSmallMemory has most records on disk alone, so that reads promote all the time.
func TestContractSmallMemory(t *testing.T) {
	cachetest.Run(t, func(t *testing.T) cache.Store { return open(t, t.TempDir(), 64<<10, cachetest.Budget) })
}

func open(t testing.TB, dir string, mem, dsk int64) *Store {
	t.Helper()
	m, err := memory.New(memory.Options{Max: mem})
	if err != nil {
		t.Fatal(err)
	}
	d, err := disk.Open(disk.Options{Path: dir, Max: dsk})
	if err != nil {
		t.Fatal(err)
	}
	s := New(m, d)
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// reopened returns a store with records on disk and nothing in memory.
func reopened(t *testing.T, records ...*cache.Record) *Store {
	t.Helper()
	dir := t.TempDir()
	s := open(t, dir, 1<<20, 64<<20)
	for _, r := range records {
		if got := s.Put(r); got != cache.PutStored {
			t.Fatalf("put %q: %v", r.Key, got)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return open(t, dir, 1<<20, 64<<20)
}

func inMemory(t *testing.T, s *Store, key string) bool {
	t.Helper()
	_, ok := s.mem.Get(key)
	return ok
}

// Small records come into memory on their first read, larger ones on their second, the largest never: of those only a handle.
func TestPromotion(t *testing.T) {
	for _, tc := range []struct {
		size  int
		reads int // after which it is in memory
		whole bool
	}{
		{100, 1, true},
		{smallBody, 1, true},
		{smallBody + 1, 2, true},
		{64 << 10, 2, true},
		{64<<10 + 1, 1, false},
		{2 << 20, 1, false},
	} {
		t.Run(fmt.Sprint(tc.size), func(t *testing.T) {
			s := reopened(t, cachetest.Record("a", 1, tc.size))
			for n := 1; n <= tc.reads; n++ {
				if inMemory(t, s, "a") {
					t.Errorf("in memory after %d reads", n-1)
				}
				r, ok := s.Get("a")
				if !ok {
					t.Fatal("miss")
				}
				if err := cachetest.Verify("a", r); err != nil {
					t.Error(err)
				}
			}
			r, ok := s.mem.Get("a")
			if !ok {
				t.Fatalf("not in memory after %d reads", tc.reads)
			}
			if _, whole := r.Body.Bytes(); whole != tc.whole {
				t.Errorf("body in memory: %t, want %t", whole, tc.whole)
			}
			if err := cachetest.Verify("a", r); err != nil {
				t.Error(err)
			}
		})
	}
}

// A look in memory alone finds what was promoted, and brings nothing there itself.
func TestGetMemory(t *testing.T) {
	s := reopened(t, cachetest.Record("a", 1, 100))
	for range 3 {
		if _, ok := s.GetMemory("a"); ok {
			t.Error("a record on disk is in memory")
		}
	}
	if _, ok := s.Get("a"); !ok {
		t.Fatal("miss")
	}
	if r, ok := s.GetMemory("a"); !ok || r.Token != 1 {
		t.Errorf("after a read: %v, %t", r, ok)
	}
}

// A body too large for memory takes the older record of its key from there.
func TestLargeUpdate(t *testing.T) {
	s := open(t, t.TempDir(), 1<<20, 64<<20)
	s.Put(cachetest.Record("a", 1, 100))
	if !inMemory(t, s, "a") {
		t.Fatal("a small record is not in memory")
	}
	s.Put(cachetest.Record("a", 2, 500_000))
	for range 2 {
		if r, ok := s.Get("a"); !ok || r.Token != 2 {
			t.Errorf("got %v, %t, want token 2", r, ok)
		}
		cachetest.Sync(t, s)
	}
}

// A record found on disk does not come back into memory when it was deleted before it got there.
func TestPromotionAfterDelete(t *testing.T) {
	s := reopened(t, cachetest.Record("a", 1, 100))
	st := s.stripe(hashOf(s, "a"))
	ticket, quiet := st.look()
	r, ok := s.dsk.Get("a")
	if !quiet || !ok {
		t.Fatal("the record is not on disk")
	}
	if !s.Delete("a", 5) {
		t.Error("nothing deleted")
	}
	if st.ifSame(ticket, func() { s.mem.Put(r) }) {
		t.Error("a change went unnoticed")
	}
	if _, ok := s.Get("a"); ok {
		t.Error("the deleted record came back")
	}
	ticket = st.begin()
	if _, quiet := st.look(); quiet {
		t.Error("a stripe with a change under way says that it is quiet")
	}
	st.end(ticket, func(alone bool) {
		if !alone {
			t.Error("a change without another says that it was not alone")
		}
	})
}

// Of two puts at once the older may reach memory last: it leaves memory to the next read, which finds the newer one on disk. It
// does not matter which of them began first.
func TestPutsOvertakeEachOther(t *testing.T) {
	for _, olderFirst := range []bool{true, false} {
		s := open(t, t.TempDir(), 1<<20, 64<<20)
		older, newer := cachetest.Record("a", 1, 100), cachetest.Record("a", 2, 100)
		st := s.stripe(hashOf(s, "a"))
		first, second := st.begin(), st.begin()
		if !olderFirst {
			first, second = second, first
		}
		s.dsk.Put(older)
		s.dsk.Put(newer)
		wantToken := func(want uint64) {
			t.Helper()
			if r, ok := s.Get("a"); !ok || r.Token != want {
				t.Errorf("older first %t: got %v, %t, want token %d", olderFirst, r, ok, want)
			}
		}
		wantToken(2)
		st.end(first, func(alone bool) { s.putMemory(older, cache.PutStored, alone) })
		wantToken(2)
		st.end(second, func(alone bool) { s.putMemory(newer, cache.PutStored, alone) })
		wantToken(2)
		if !inMemory(t, s, "a") {
			t.Error("the newer record is not in memory")
		}
	}
}

// A put that a delete overtakes does not bring its record back into memory.
func TestDeleteOvertakesPut(t *testing.T) {
	s := open(t, t.TempDir(), 1<<20, 64<<20)
	r := cachetest.Record("a", 1, 100)
	st := s.stripe(hashOf(s, "a"))
	ticket := st.begin()
	s.dsk.Put(r)
	if !s.Delete("a", 5) {
		t.Error("nothing deleted")
	}
	st.end(ticket, func(alone bool) { s.putMemory(r, cache.PutStored, alone) })
	if _, ok := s.Get("a"); ok {
		t.Error("the deleted record came back")
	}
}

func hashOf(s *Store, key string) uint64 { return maphash.String(s.seed, key) }

// A spooled body is on disk alone; memory holds its record.
func TestSpooled(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 1<<20, 64<<20)
	r := cachetest.Record("a", 1, 3<<20)
	content, _ := r.Body.Bytes()
	sp, err := s.NewSpool()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sp.Write(content); err != nil {
		t.Fatal(err)
	}
	if r.Body, err = sp.Body(); err != nil {
		t.Fatal(err)
	}
	if got := s.Put(r); got != cache.PutStored {
		t.Errorf("put: %v", got)
	}
	if err := sp.Close(); err != nil {
		t.Error(err)
	}
	if !inMemory(t, s, "a") {
		t.Error("the record is not in memory")
	}
	for range 2 {
		got, ok := s.Get("a")
		if !ok {
			t.Fatal("miss")
		}
		if p, err := cachetest.ReadBody(got.Body); err != nil || !bytes.Equal(p, content) {
			t.Errorf("body: %d bytes, %v", len(p), err)
		}
		cachetest.Sync(t, s)
	}
}

// A file that goes missing under a handle in memory is a miss, not a wrong answer.
func TestBodyGone(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 1<<20, 64<<20)
	s.Put(cachetest.Record("a", 1, 500_000))
	cachetest.Sync(t, s)
	if _, ok := s.Get("a"); !ok || !inMemory(t, s, "a") {
		t.Fatal("no handle in memory")
	}
	files, err := filepath.Glob(filepath.Join(dir, "bodies", "*", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("body files %v, %v", files, err)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	r, _ := s.Get("a")
	if f, err := r.Body.Open(); err == nil {
		_ = f.Close()
		t.Error("a missing body opened")
	}
	s.Delete("a", r.Token) // as a reader does then
	if _, ok := s.Get("a"); ok {
		t.Error("hit, want a miss")
	}
}

func BenchmarkGet(b *testing.B) {
	s := open(b, b.TempDir(), 64<<20, 64<<20)
	for i := range 1000 {
		s.Put(cachetest.Record(fmt.Sprint("key/", i), 1, 1000))
	}
	if err := s.Sync(b.Context()); err != nil {
		b.Fatal(err)
	}
	for name, get := range map[string]func(string) (*cache.Record, bool){"memory": s.Get, "disk": s.dsk.Get} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := get("key/500"); !ok {
					b.Fatal("miss")
				}
			}
		})
	}
}
