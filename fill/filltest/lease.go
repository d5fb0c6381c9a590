package filltest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/swrproxy/swrproxy/fill"
)

func settleFrees(r *rig) {
	l := r.acquire()
	busy(r.T, r.k, r.key)
	w := r.wait()
	gauges(r.T, r.k, 1, 0, 1)
	mayCommit(r.T, l, nil)
	ctx := l.Context()
	settle(r.T, l, fill.Stored)
	outcome(r.T, w, fill.Stored)
	cause(r.T, ctx, fill.ErrSettled)
	cause(r.T, l.Context(), fill.ErrSettled)
	mayCommit(r.T, l, fill.ErrSettled)
	next := r.acquire()
	if next.Token() <= l.Token() {
		r.Errorf("token %d after %d", next.Token(), l.Token())
	}
	if next.Key() != r.key {
		r.Errorf("Key: %v", next.Key())
	}
}

func spacesApart(r *rig) {
	for _, k := range []fill.Key{{Space: "a", ID: "bc"}, {Space: "ab", ID: "c"}, {ID: "abc"}, {Space: "abc"}} {
		acquire(r.T, r.k, k)
		busy(r.T, r.k, k)
	}
	gauges(r.T, r.k, 4, 0, 0)
}

func tenureFrees(r *rig) {
	l := r.acquire()
	w := r.wait()
	began := time.Now()
	ctx := l.Context()
	<-ctx.Done()
	if took := time.Since(began); took != Tenure {
		r.Errorf("the tenure took %v, want %v", took, Tenure)
	}
	cause(r.T, ctx, fill.ErrTenureOver)
	outcome(r.T, w, fill.TenureOver)
	synctest.Wait()
	mayCommit(r.T, l, nil) // late, and nobody newer
	next := r.acquire()
	mayCommit(r.T, l, fill.ErrLeaseLost)
	settleFails(r.T, l, fill.ErrLeaseLost)
	mayCommit(r.T, next, nil)
	busy(r.T, r.k, r.key)
}

func renewMoves(r *rig) {
	l := r.acquire()
	for range 10 {
		time.Sleep(Tenure - 1)
		if err := l.Renew(); err != nil {
			r.Fatalf("Renew: %v", err)
		}
	}
	began := time.Now()
	<-l.Context().Done()
	if took := time.Since(began); took != Tenure {
		r.Errorf("the last tenure took %v, want %v", took, Tenure)
	}
}

func renewRetakes(r *rig) {
	l := r.acquire()
	time.Sleep(Tenure + time.Second)
	if err := l.Renew(); err != nil {
		r.Fatalf("Renew with nobody newer: %v", err)
	}
	busy(r.T, r.k, r.key)
	if err := l.Context().Err(); err != nil {
		r.Errorf("context after Renew: %v", err)
	}
	settle(r.T, l, fill.Stored)

	l = r.acquire()
	time.Sleep(Tenure + time.Second)
	settle(r.T, r.acquire(), fill.Stored)
	if err := l.Renew(); !errors.Is(err, fill.ErrLeaseLost) {
		r.Errorf("Renew after somebody newer: %v, want ErrLeaseLost", err)
	}
}

func settlesCounted(r *rig) {
	again := r.acquire()
	settle(r.T, again, fill.Stored)
	late := r.acquire()
	time.Sleep(Tenure + 1)
	overtaken := r.acquire()
	holder := r.supersede()
	w := r.wait()

	settleFails(r.T, again, fill.ErrSettled)
	settleFails(r.T, late, fill.ErrLeaseLost)
	settleFails(r.T, overtaken, fill.ErrSuperseded)
	if again.Settle(fill.Outcome{Kind: fill.Stored}) || late.Settle(fill.Outcome{}) || overtaken.Settle(fill.Outcome{}) {
		r.Error("a settle out of office counted")
	}

	mayCommit(r.T, holder, nil)
	busy(r.T, r.k, r.key)
	if out, _ := w.Wait(r.Context(), 1); out.Kind != fill.WaitOver {
		r.Errorf("somebody's settle woke the holder's waiter: %v", out.Kind)
	}
	settle(r.T, holder, fill.Stored)
	lapsed := r.acquire()
	time.Sleep(Tenure + 1)
	settleFails(r.T, lapsed, fill.ErrTenureOver)
	mayCommit(r.T, lapsed, fill.ErrSettled)
	st := r.k.Stats()
	if st.SettledAgain != 2 || st.SettledOvertaken != 4 || st.SettledLate != 1 {
		r.Errorf("no-op settles: %d again, %d overtaken, %d late; want 2, 4, 1", st.SettledAgain, st.SettledOvertaken, st.SettledLate)
	}
}

// crowd starts n waiters that call each with what they are woken for.
func (r *rig) crowd(n int, each func(fill.Outcome)) *sync.WaitGroup {
	var wg sync.WaitGroup
	for range n {
		w := r.wait()
		wg.Go(func() {
			defer w.Cancel()
			out, err := w.Wait(r.Context(), time.Hour)
			if err != nil {
				r.Errorf("Wait: %v", err)
			}
			each(out)
		})
	}
	return &wg
}

func failureShared(r *rig) {
	l := r.acquire()
	cause := errors.New("origin on fire")
	var shared atomic.Int64
	wg := r.crowd(50, func(out fill.Outcome) {
		if out.Kind == fill.Failed && out.Err == cause {
			shared.Add(1)
		}
	})
	gauges(r.T, r.k, 1, 0, 50)
	began := time.Now()
	l.Settle(fill.Outcome{Kind: fill.Failed, Err: cause})
	wg.Wait()
	if shared.Load() != 50 || time.Since(began) != 0 {
		r.Errorf("%d of 50 share the failure after %v", shared.Load(), time.Since(began))
	}
	if got := r.k.Stats().Granted; got != 1 {
		r.Errorf("%d leases granted, want 1: nobody retries", got)
	}
}

func oneSuccessor(r *rig) {
	r.acquire()
	var leaders, followers atomic.Int64
	wg := r.crowd(50, func(out fill.Outcome) {
		if !out.Kind.Lost() {
			r.Errorf("woken with %v", out.Kind)
		}
		l, w, err := r.k.Join(r.key)
		switch {
		case err != nil:
			r.Errorf("Join: %v", err)
		case l != nil:
			leaders.Add(1)
			time.Sleep(time.Second)
			settle(r.T, l, fill.Stored)
		default:
			defer w.Cancel()
			outcome(r.T, w, fill.Stored)
			followers.Add(1)
		}
	})
	wg.Wait()
	if leaders.Load() != 1 || followers.Load() != 49 {
		r.Errorf("%d successors, %d followers; want 1, 49", leaders.Load(), followers.Load())
	}
}

func supersedes(r *rig) {
	old := r.acquire()
	w, ctx := r.wait(), old.Context()
	l := r.supersede()
	cause(r.T, ctx, fill.ErrSuperseded)
	outcome(r.T, w, fill.Superseded)
	mayCommit(r.T, old, fill.ErrSuperseded)
	if err := old.Renew(); !errors.Is(err, fill.ErrSuperseded) {
		r.Errorf("Renew of the displaced: %v", err)
	}
	settleFails(r.T, old, fill.ErrSuperseded)
	if l.Token() <= old.Token() {
		r.Errorf("token %d superseded %d", l.Token(), old.Token())
	}
	mayCommit(r.T, l, nil)
	settle(r.T, l, fill.Stored)
	mayCommit(r.T, old, fill.ErrSuperseded) // still
}

func displaces(r *rig) {
	old := r.acquire()
	w, ctx := r.wait(), old.Context()
	if !r.k.Displace(r.key) {
		r.Error("Displace found nobody")
	}
	cause(r.T, ctx, fill.ErrSuperseded)
	outcome(r.T, w, fill.Superseded)
	mayCommit(r.T, old, fill.ErrSuperseded)
	settle(r.T, r.acquire(), fill.Stored)

	lapsed := r.acquire()
	time.Sleep(Tenure + 1)
	r.k.Displace(r.key)
	mayCommit(r.T, lapsed, fill.ErrSuperseded)
	if r.k.Displace(r.key) {
		r.Error("Displace of a free key found somebody")
	}
}

func displacesBefore(r *rig) {
	first := r.acquire()
	second := r.supersede()
	if r.k.DisplaceBefore(r.key, second.Token()) {
		r.Error("a fill was displaced by what is not newer")
	}
	mayCommit(r.T, second, nil)
	if err := second.Rollback(); err != nil {
		r.Errorf("Rollback: %v", err)
	}
	mayCommit(r.T, first, fill.ErrSuperseded) // it began before
	third := r.acquire()
	if !r.k.DisplaceBefore(r.key, third.Token()+1) {
		r.Error("an older fill was spared")
	}
	mayCommit(r.T, third, fill.ErrSuperseded)
}

func announces(r *rig) {
	l := r.acquire()
	w := r.wait()
	l.Announce()
	late := r.wait()
	if w.Late() || !late.Late() {
		r.Errorf("Late: %v, %v, want false, true", w.Late(), late.Late())
	}
	outcome(r.T, w, fill.Announced)
	if out, _ := late.Wait(r.Context(), 1); out.Kind != fill.WaitOver {
		r.Errorf("woken for what was announced before: %v", out.Kind)
	}
	l.Announce()
	l.Announce()
	outcome(r.T, w, fill.Announced)
	outcome(r.T, w, fill.Announced)
	gauges(r.T, r.k, 1, 0, 1)
	settle(r.T, l, fill.NotShareable)
	l.Announce()
	outcome(r.T, w, fill.NotShareable)
	outcome(r.T, w, fill.NotShareable) // as often as asked
}

func waiterLimits(r *rig) {
	l := r.acquire()
	began := time.Now()
	out, err := r.wait().Wait(r.Context(), time.Second)
	if out.Kind != fill.WaitOver || err != nil || time.Since(began) != time.Second {
		r.Errorf("Wait: %v, %v after %v, want WaitOver after 1s", out.Kind, err, time.Since(began))
	}
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	if _, err := r.wait().Wait(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
		r.Errorf("Wait: %v, want the context's error", err)
	}
	w := r.wait()
	gauges(r.T, r.k, 1, 0, 1)
	w.Cancel()
	w.Cancel()
	gauges(r.T, r.k, 1, 0, 0)
	mayCommit(r.T, l, nil)
}

func wonTooLate(r *rig) {
	l := r.acquire()
	ctx, cancel := context.WithCancel(r.Context())
	done := make(chan error)
	go func() {
		_, err := fill.Acquire(ctx, r.k, r.key, 0)
		done <- err
	}()
	synctest.Wait()
	cancel()
	settle(r.T, l, fill.Abandoned)
	if err := <-done; !errors.Is(err, context.Canceled) {
		r.Errorf("Acquire: %v", err)
	}
	settle(r.T, r.acquire(), fill.Stored) // free, whoever won

	if _, err := fill.Acquire(ctx, r.k, r.key, 0); !errors.Is(err, context.Canceled) {
		r.Errorf("Acquire of a free key with an ended context: %v", err)
	}
	r.acquire()
	if _, err := fill.Acquire(r.Context(), r.k, r.key, time.Second); !errors.Is(err, fill.ErrWaitOver) {
		r.Errorf("Acquire: %v, want ErrWaitOver", err)
	}
}

func closeEnds(r *rig) {
	l := r.acquire()
	w, ctx := r.wait(), l.Context()
	if err := r.k.Close(r.Context()); err != nil {
		r.Fatal(err)
	}
	cause(r.T, ctx, fill.ErrClosed)
	out, err := w.Wait(r.Context(), 0)
	if out.Kind != fill.Abandoned || !errors.Is(out.Err, fill.ErrClosed) || err != nil {
		r.Errorf("Wait: %v, %v, want Abandoned for ErrClosed", out, err)
	}
	mayCommit(r.T, l, fill.ErrClosed)
	settleFails(r.T, l, fill.ErrClosed)
	if _, err := r.k.TryAcquire(r.key); !errors.Is(err, fill.ErrClosed) {
		r.Errorf("TryAcquire: %v", err)
	}
	if _, _, err := r.k.Join(r.key); !errors.Is(err, fill.ErrClosed) {
		r.Errorf("Join: %v", err)
	}
	if _, err := r.k.Supersede(r.key); !errors.Is(err, fill.ErrClosed) {
		r.Errorf("Supersede: %v", err)
	}
	if _, err := r.k.Queue(r.key, 0); !errors.Is(err, fill.ErrClosed) {
		r.Errorf("Queue: %v", err)
	}
}
