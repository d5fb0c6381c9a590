package disk

import (
	"testing"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/cachetest"
)

// A key that the database lacks is looked for once, and found from when it is written.
func TestAbsentKeysAreRemembered(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	h := s.hash("a")
	for token := uint64(1); token < 4; token++ {
		if _, ok := s.Get("a"); ok || !s.absent.has(h) {
			t.Errorf("token %d: found %t, remembered %t", token, ok, s.absent.has(h))
		}
		put(t, s, cachetest.Record("a", token, 100))
		if r, ok := s.Get("a"); !ok || r.Token != token {
			t.Errorf("queued token %d is not seen", token)
		}
		flushed(t, s)
		if r, ok := s.Get("a"); !ok || r.Token != token || s.absent.has(h) {
			t.Errorf("written token %d: found %t, remembered as absent: %t", token, ok, s.absent.has(h))
		}
		if !s.Delete("a", token) {
			t.Error("nothing deleted")
		}
		flushed(t, s)
	}
	if got := s.Put(cachetest.Record("a", 2, 100)); got != cache.PutOlder {
		t.Errorf("put of an older token: %v", got)
	}
}

// A look that a batch has overtaken is not remembered.
func TestOvertakenLookIsNotRemembered(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	seen := s.removals.Load()
	put(t, s, cachetest.Record("a", 1, 100))
	flushed(t, s)
	s.noteAbsent(s.hash("a"), seen)
	if _, ok := s.Get("a"); !ok {
		t.Error("miss")
	}
}
