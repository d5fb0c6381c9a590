package disk

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swrproxy/swrproxy/cache/cachetest"
)

// TestSyncEndsUnderWrites: Sync waits for what came before it, not for what comes while it writes.
func TestSyncEndsUnderWrites(t *testing.T) {
	t.Parallel()
	const more = 50
	var s *Store
	var writing atomic.Bool
	var added atomic.Int64
	s = open(t, Options{Path: t.TempDir(), Linger: time.Hour, fault: func(at fault) error {
		if at != faultCommit || !writing.Load() || added.Load() == more {
			return nil
		}
		done := make(chan struct{})
		go func() { // as a fill that commits while the writer does
			defer close(done)
			put(t, s, cachetest.Record(fmt.Sprint("late/", added.Add(1)), 2, 10))
		}()
		<-done
		return nil
	}})
	put(t, s, cachetest.Record("early", 1, 10))
	writing.Store(true)
	flushed(t, s)
	if n := added.Load(); n == 0 || n > 2 {
		t.Errorf("Sync wrote %d batches that came after it", n)
	}
	writing.Store(false)
	if st := s.Stats(); st.Records == 0 {
		t.Error("Sync wrote nothing")
	}
	flushed(t, s)
	if st := s.Stats(); st.Records != added.Load()+1 {
		t.Errorf("%d records on disk, want %d", st.Records, added.Load()+1)
	}
}
