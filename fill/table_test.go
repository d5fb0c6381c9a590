package fill

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var key = Key{Space: "app", ID: "https://example.org/"}

func TestBusyDoesNotAllocate(t *testing.T) {
	tab := New(Options{})
	defer tab.Close(t.Context())
	if _, err := tab.TryAcquire(key); err != nil {
		t.Fatal(err)
	}
	n := testing.AllocsPerRun(1000, func() {
		if _, err := tab.TryAcquire(key); !errors.Is(err, ErrBusy) {
			t.Errorf("TryAcquire: %v", err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
	if st := tab.Stats(); st.Waiting != 0 || st.Queued != 0 || st.Held != 1 {
		t.Errorf("%+v: something was registered", st)
	}
}

// A lease that nobody waits for is one small allocation: singleflight's call is as large.
func TestLeaseIsOneAllocation(t *testing.T) {
	tab := New(Options{})
	defer tab.Close(t.Context())
	take(tab, key)
	if n := testing.AllocsPerRun(1000, func() { take(tab, key) }); n != 1 {
		t.Errorf("%v allocations, want 1", n)
	}
}

// 10,000 waiters on one key: one fill, all answered at once, each look finds the key free or one holder.
func TestCrowdIsWokenAtOnce(t *testing.T) {
	const crowd = 10_000
	synctest.Test(t, func(t *testing.T) {
		tab := New(Options{})
		defer tab.Close(t.Context())
		fills := 0
		var wg sync.WaitGroup
		for range crowd {
			l, w, err := tab.Join(key)
			if err != nil {
				t.Fatal(err)
			}
			if l != nil {
				fills++
				time.AfterFunc(time.Second, func() { l.Settle(Outcome{Kind: Stored}) })
				continue
			}
			wg.Go(func() {
				began := time.Now()
				if out, err := w.Wait(t.Context(), time.Minute); out.Kind != Stored || err != nil || time.Since(began) != time.Second {
					t.Errorf("Wait: %v, %v after %v", out.Kind, err, time.Since(began))
				}
			})
		}
		wg.Wait()
		if st := tab.Stats(); fills != 1 || st.Granted != 1 || st.Waiting != 0 {
			t.Errorf("%d fills, %d granted, %d waiting; want 1, 1, 0", fills, st.Granted, st.Waiting)
		}
	})
}

// A hung fill that nobody settles leaves nothing behind in the end, and may not commit any more then.
func TestForgottenLeaseIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := New(Options{Tenure: time.Second})
		defer tab.Close(t.Context())
		l, err := tab.TryAcquire(key)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(rememberTenures * time.Second)
		if err := l.CheckCommit(); err != nil {
			t.Errorf("CheckCommit after %d tenures: %v", rememberTenures, err)
		}
		time.Sleep(2 * time.Second)
		if err := l.CheckCommit(); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("CheckCommit after more: %v", err)
		}
		s, _ := tab.locate(key)
		if s.index.n != 0 || len(s.due.heap) != 0 {
			t.Errorf("%d leases, %d deadlines left", s.index.n, len(s.due.heap))
		}
	})
}

func TestNoTenure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := New(Options{Tenure: -1})
		l, err := tab.TryAcquire(key)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(1000 * time.Hour)
		if err := errors.Join(l.Context().Err(), l.Renew(), l.CheckCommit()); err != nil {
			t.Error(err)
		}
		if err := tab.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A table at rest has no timer running: a tenure after the last lease at most.
func TestTimersRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := New(Options{})
		defer tab.Close(t.Context())
		for range 100 {
			take(tab, key)
		}
		time.Sleep(DefaultTenure + 1)
		synctest.Wait()
		s, _ := tab.locate(key)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.armed != 0 {
			t.Errorf("the timer is set for %v", time.Duration(s.armed))
		}
	})
}

// In a rush tenures are never shorter, and a hundredth longer at most; renewed ones are exact.
func TestTenureInARush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := New(Options{Shards: 1})
		defer tab.Close(t.Context())
		for range rushGrants + 1 {
			take(tab, key)
			time.Sleep(time.Millisecond)
		}
		if s := &tab.shards[0]; !s.rush.on {
			t.Fatal("no rush")
		}
		began := time.Now()
		l, err := tab.TryAcquire(key)
		if err != nil {
			t.Fatal(err)
		}
		renewed, err := tab.TryAcquire(Key{ID: "renewed"})
		if err != nil {
			t.Fatal(err)
		}
		if err := renewed.Renew(); err != nil {
			t.Fatal(err)
		}
		displaced, err := tab.TryAcquire(Key{ID: "displaced"})
		if err != nil {
			t.Fatal(err)
		}
		newer, err := tab.Supersede(Key{ID: "displaced"})
		if err := errors.Join(err, newer.Rollback(), displaced.CheckCommit()); err != nil {
			t.Fatal(err)
		}
		<-renewed.Context().Done()
		if took := time.Since(began); took != DefaultTenure {
			t.Errorf("the renewed tenure took %v", took)
		}
		<-l.Context().Done()
		if took := time.Since(began); took < DefaultTenure || took > DefaultTenure+tab.rushSpan() {
			t.Errorf("the tenure took %v, want %v to %v", took, DefaultTenure, DefaultTenure+tab.rushSpan())
		}
		if err := displaced.Context().Err(); err == nil {
			t.Error("the restored lease is still held")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if s := &tab.shards[0]; s.rush.on {
			t.Error("the rush goes on with nobody there")
		}
	})
}

// Many leases end in one go, each once.
func TestManyTenuresEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := New(Options{Shards: 3})
		defer tab.Close(t.Context())
		if len(tab.shards) != 4 {
			t.Errorf("%d shards, want 3 rounded up", len(tab.shards))
		}
		leases := make([]*Lease, 0, 10_000)
		for _, k := range benchKeys(10_000) {
			l, err := tab.TryAcquire(k)
			if err != nil {
				t.Fatal(err)
			}
			leases = append(leases, l)
		}
		time.Sleep(DefaultTenure + tab.rushSpan())
		synctest.Wait()
		if st := tab.Stats(); st.Lapsed != 10_000 || st.Held != 0 {
			t.Errorf("%d lapsed, %d held", st.Lapsed, st.Held)
		}
		for _, l := range leases {
			if l.Settle(Outcome{Kind: Stored}) {
				t.Fatal("a late settle counted")
			}
		}
		for i := range tab.shards {
			if n := tab.shards[i].index.n; n != 0 {
				t.Errorf("%d leases left", n)
			}
		}
	})
}

func TestSequence(t *testing.T) {
	s := NewSequence(41)
	if a, b := s.Next(), s.Next(); a != 42 || b != 43 || s.Last() != 43 {
		t.Errorf("%d, %d, last %d", a, b, s.Last())
	}
	s.Bump(100)
	s.Bump(7)
	if n := s.Next(); n != 101 {
		t.Errorf("after Bump(100): %d", n)
	}
}

func TestKinds(t *testing.T) {
	for k, want := range map[Kind]struct {
		name              string
		lost, final, mine bool
	}{
		Unknown:      {"unknown", false, false, false},
		Stored:       {"stored", false, true, true},
		NotShareable: {"not-shareable", false, true, true},
		Failed:       {"failed", false, true, true},
		Abandoned:    {"abandoned", true, true, true},
		TenureOver:   {"tenure-over", true, true, false},
		Superseded:   {"superseded", true, true, false},
		WaitOver:     {"wait-over", false, false, false},
		Announced:    {"announced", false, false, false},
		Kind(77):     {"kind-77", false, true, false},
	} {
		if k.String() != want.name || k.Lost() != want.lost || k.final() != want.final || k.ownersKind() != want.mine {
			t.Errorf("%v: lost %v, final %v, an owner's %v; want %+v", k, k.Lost(), k.final(), k.ownersKind(), want)
		}
	}
	if s := key.String(); s != "app/https://example.org/" {
		t.Errorf("key: %s", s)
	}
}

// An owner that settles with what is not an owner's to say has abandoned its fill.
func TestSettleWithNonsense(t *testing.T) {
	for _, k := range []Kind{Unknown, TenureOver, Superseded, WaitOver, Announced, Kind(77)} {
		tab := New(Options{})
		l, _, _ := tab.Join(key)
		_, w, _ := tab.Join(key)
		if !l.Settle(Outcome{Kind: k}) {
			t.Errorf("%v did not count", k)
		}
		if out, err := w.Wait(context.Background(), 0); out.Kind != Abandoned || err != nil {
			t.Errorf("%v is told as %v, %v", k, out.Kind, err)
		}
		tab.Close(t.Context())
	}
}
