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
