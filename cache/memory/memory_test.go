package memory

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/cachetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	cachetest.Run(t, func(t *testing.T) cache.Store {
		s, err := New(Options{Max: cachetest.Budget})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func open(tb testing.TB, size int64) *Store {
	tb.Helper()
	s, err := New(Options{Max: size})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(tb.Context()); err != nil {
			tb.Error(err)
		}
	})
	return s
}

func BenchmarkGet(b *testing.B) {
	s := open(b, 64<<20)
	for i := range uint64(10_000) {
		s.Put(cachetest.Record("default\x00GET\x00http://example.org/some/path/"+string(rune('a'+i%26)), i, 1024))
	}
	if err := s.Sync(b.Context()); err != nil {
		b.Fatal(err)
	}
	key := "default\x00GET\x00http://example.org/some/path/c"
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := s.Get(key); !ok {
			b.Fatal("miss")
		}
	}
}
