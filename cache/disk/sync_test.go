package disk

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

// Those who wait for the writer share a transaction: three more come during each, and none of them waits for the one after the next.
func TestSyncsShareCommits(t *testing.T) {
	const callers, together = 91, 3
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var s *Store
		var wg sync.WaitGroup
		var returned atomic.Int64
		came := callers // none comes yet
		come := func() {
			key := fmt.Sprint("key/", came)
			came++
			wg.Go(func() {
				s.Delete(key, 1)
				flushed(t, s)
				returned.Add(1)
			})
		}
		s = open(t, Options{Path: dir, Linger: time.Hour, fault: func(at fault) error {
			if synctest.Wait(); at != faultCommit || came == callers {
				return nil
			}
			for range together {
				come()
			}
			synctest.Wait()
			if waiting := came - int(returned.Load()); waiting > 2*together {
				t.Errorf("%d callers wait", waiting)
			}
			return nil
		}})
		for i := range callers {
			put(t, s, cachetest.Record(fmt.Sprint("key/", i), 1, 10))
		}
		flushed(t, s)
		before := s.Metrics().Commits
		came = 0
		come()
		wg.Wait()
		if got, want := s.Metrics().Commits-before, int64(1+(callers-1)/together); got != want {
			t.Errorf("%d callers took %d transactions, want %d", callers, got, want)
		}
		if got := s.Stats().Records; got != 0 {
			t.Errorf("%d records are left", got)
		}
	})
}
