package fill

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var key = Key{Space: "app", ID: "https://example.org/"}

const tenure = 10 * time.Second

// bubble runs f with a table in fake time.
func bubble(t *testing.T, f func(t *testing.T, tab *Table)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		tab := New(Options{Tenure: tenure})
		f(t, tab)
		if err := tab.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
		synctest.Wait()
		st := tab.Stats()
		if st.Held != 0 || st.Queued != 0 || st.Waiting != 0 {
			t.Errorf("after Close: %d held, %d queued, %d waiting", st.Held, st.Queued, st.Waiting)
		}
	})
}

func mustAcquire(t *testing.T, tab *Table) *Lease {
	t.Helper()
	l, err := tab.TryAcquire(key)
	if err != nil {
		t.Fatalf("TryAcquire: %v", err)
	}
	return l
}

func mustWait(t *testing.T, tab *Table) *Waiter {
	t.Helper()
	l, w, err := tab.Join(key)
	if l != nil || err != nil {
		t.Fatalf("Join: %v, %v, want a waiter", l, err)
	}
	return w
}

func wantCause(t *testing.T, l *Lease, want error) {
	t.Helper()
	if got := context.Cause(l.Context()); !errors.Is(got, want) {
		t.Errorf("cause of the lease's context: %v, want %v", got, want)
	}
}

func wantOutcome(t *testing.T, w *Waiter, want Kind) {
	t.Helper()
	out, err := w.Wait(t.Context(), time.Minute)
	if err != nil || out.Kind != want {
		t.Errorf("Wait: %v, %v, want %v", out.Kind, err, want)
	}
}

func wantRefused(t *testing.T, l *Lease, want error) {
	t.Helper()
	if err := l.CheckCommit(); !errors.Is(err, want) {
		t.Errorf("CheckCommit: %v, want %v", err, want)
	}
}

func TestSettleFreesTheKey(t *testing.T) {
	bubble(t, func(t *testing.T, tab *Table) {
		l := mustAcquire(t, tab)
		if _, err := tab.TryAcquire(key); !errors.Is(err, ErrBusy) {
			t.Fatalf("second TryAcquire: %v, want ErrBusy", err)
		}
		w := mustWait(t, tab)
		if err := l.CheckCommit(); err != nil {
			t.Errorf("CheckCommit: %v", err)
		}
		if !l.Settle(Outcome{Kind: Stored}) {
			t.Error("Settle did not count")
		}
		wantOutcome(t, w, Stored)
		wantCause(t, l, ErrSettled)
		wantRefused(t, l, ErrSettled)
		if next := mustAcquire(t, tab); next.Token() <= l.Token() {
			t.Errorf("token %d after %d", next.Token(), l.Token())
		}
	})
}

func TestSpacesNeverMeet(t *testing.T) {
	bubble(t, func(t *testing.T, tab *Table) {
		for _, k := range []Key{{"a", "bc"}, {"ab", "c"}, {"", "abc"}, {"abc", ""}} {
			if _, err := tab.TryAcquire(k); err != nil {
				t.Errorf("TryAcquire %v: %v", k, err)
			}
		}
	})
}

func TestTenureFreesTheKeyWithNobodyWaiting(t *testing.T) {
	bubble(t, func(t *testing.T, tab *Table) {
		l := mustAcquire(t, tab)
		began := time.Now()
		<-l.Context().Done()
		if took := time.Since(began); took != tenure {
			t.Errorf("tenure took %v", took)
		}
		wantCause(t, l, ErrTenureOver)
		if err := l.CheckCommit(); err != nil {
			t.Errorf("late result with nobody newer: %v", err)
		}
		next := mustAcquire(t, tab)
		wantRefused(t, l, ErrLeaseLost)
		if l.Settle(Outcome{Kind: Stored}) {
			t.Error("late Settle counted")
		}
		if err := next.CheckCommit(); err != nil {
			t.Errorf("late Settle hit the next holder: %v", err)
		}
		if _, err := tab.TryAcquire(key); !errors.Is(err, ErrBusy) {
			t.Errorf("late Settle freed the next holder's key: %v", err)
		}
	})
}

func TestRenewMovesTheTenure(t *testing.T) {
	bubble(t, func(t *testing.T, tab *Table) {
		l := mustAcquire(t, tab)
		for range 10 {
			time.Sleep(tenure - 1)
			if err := l.Renew(); err != nil {
				t.Fatalf("Renew: %v", err)
			}
		}
		began := time.Now()
		<-l.Context().Done()
		if took := time.Since(began); took != tenure {
			t.Errorf("last tenure took %v", took)
		}
	})
}

func TestRenewTakesALapsedKeyAgain(t *testing.T) {
	bubble(t, func(t *testing.T, tab *Table) {
		l := mustAcquire(t, tab)
		time.Sleep(tenure + time.Second)
		if err := l.Renew(); err != nil {
			t.Fatalf("Renew with nobody newer: %v", err)
		}
		if _, err := tab.TryAcquire(key); !errors.Is(err, ErrBusy) {
			t.Errorf("after Renew: %v, want ErrBusy", err)
		}
		if err := l.Context().Err(); err != nil {
			t.Errorf("context after Renew: %v", err)
		}
		time.Sleep(tenure + time.Second)
		mustAcquire(t, tab)
		if err := l.Renew(); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("Renew with somebody newer: %v, want ErrLeaseLost", err)
		}
	})
}

func TestSupersedeDisplacesTheHolder(t *testing.T) {
	bubble(t, func(t *testing.T, tab *Table) {
		old := mustAcquire(t, tab)
		w := mustWait(t, tab)
		ctx := old.Context()
		l, err := tab.Supersede(key)
		if err != nil {
			t.Fatal(err)
		}
		if !errors.Is(context.Cause(ctx), ErrSuperseded) {
			t.Errorf("cause: %v", context.Cause(ctx))
		}
		wantOutcome(t, w, Superseded)
		wantRefused(t, old, ErrSuperseded)
		if old.Settle(Outcome{Kind: Stored}) {
			t.Error("Settle of the displaced counted")
		}
		if err := l.CheckCommit(); err != nil {
			t.Errorf("newer holder: %v", err)
		}
		if !l.Settle(Outcome{Kind: Stored}) {
			t.Error("Settle of the newer holder did not count")
		}
	})
}

func TestAnnounceWakesThosePresent(t *testing.T) {
	bubble(t, func(t *testing.T, tab *Table) {
		l := mustAcquire(t, tab)
		w := mustWait(t, tab)
		l.Announce()
		late := mustWait(t, tab)
		if w.Late() || !late.Late() {
			t.Errorf("Late: %v and %v, want false and true", w.Late(), late.Late())
		}
		wantOutcome(t, w, Announced)
		l.Announce()
		wantOutcome(t, w, Announced)
		wantOutcome(t, late, Announced)
		l.Settle(Outcome{Kind: Stored})
		wantOutcome(t, w, Stored)
		wantOutcome(t, late, Stored)
	})
}

func TestWaitersLimitAndContext(t *testing.T) {
	bubble(t, func(t *testing.T, tab *Table) {
		l := mustAcquire(t, tab)
		began := time.Now()
		out, err := mustWait(t, tab).Wait(t.Context(), time.Second)
		if out.Kind != WaitOver || err != nil || time.Since(began) != time.Second {
			t.Errorf("Wait: %v, %v after %v, want WaitOver after 1s", out.Kind, err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := mustWait(t, tab).Wait(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait: %v, want the context's error", err)
		}
		w := mustWait(t, tab)
		w.Cancel()
		w.Cancel()
		if n := tab.Stats().Waiting; n != 0 {
			t.Errorf("%d waiting", n)
		}
		if err := l.CheckCommit(); err != nil {
			t.Errorf("leaving waiters hit the holder: %v", err)
		}
	})
}

func TestCloseEndsEverything(t *testing.T) {
	bubble(t, func(t *testing.T, tab *Table) {
		l := mustAcquire(t, tab)
		w := mustWait(t, tab)
		c, err := tab.Queue(Key{"app", "queued"}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if err := tab.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantCause(t, l, ErrClosed)
		wantOutcome(t, w, Abandoned)
		if _, err := c.Start(); !errors.Is(err, ErrClosed) {
			t.Errorf("Start after Close: %v", err)
		}
		if _, err := tab.TryAcquire(key); !errors.Is(err, ErrClosed) {
			t.Errorf("TryAcquire after Close: %v", err)
		}
	})
}
