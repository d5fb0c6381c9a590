package disk

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/cachetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	cachetest.Run(t, func(t *testing.T) cache.Store {
		return open(t, Options{Max: cachetest.Budget})
	})
}

func TestJournal(t *testing.T) {
	cachetest.RunJournal(t, func(t *testing.T, dir string) cachetest.JournalStore {
		return open(t, Options{Path: dir, Max: cachetest.Budget})
	})
}

// open opens a store in a directory of the test's own unless o names one. The test's end closes it and checks it.
func open(t testing.TB, o Options) *Store {
	t.Helper()
	if o.Path == "" {
		o.Path = t.TempDir()
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		shut(t, s)
		wantSound(t, o.Path)
	})
	return s
}

func shut(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(context.Background()); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// wantSound checks every byte of a closed store.
func wantSound(t testing.TB, path string) Report {
	t.Helper()
	rep, err := Check(context.Background(), path)
	if err != nil {
		t.Errorf("Check: %v", err)
	}
	for _, p := range rep.Problems {
		t.Errorf("Check: %s", p)
	}
	if rep.Stale != 0 {
		t.Errorf("%d stale", rep.Stale)
	}
	return rep
}
