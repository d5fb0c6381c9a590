package filltest

import (
	"context"
	"errors"
	"testing/synctest"
	"time"

	"github.com/swrproxy/swrproxy/fill"
)

func rollbackFrees(r *rig) {
	l := r.acquire()
	w := r.wait()
	if err := l.Rollback(); err != nil {
		r.Errorf("Rollback: %v", err)
	}
	outcome(r.T, w, fill.Abandoned)
	settle(r.T, r.acquire(), fill.Stored)
	if err := l.Rollback(); !errors.Is(err, fill.ErrSettled) {
		r.Errorf("second Rollback: %v, want ErrSettled", err)
	}
}

func rollbackRestores(r *rig) {
	old := r.acquire()
	l := r.supersede()
	w := r.wait()
	if err := l.Rollback(); err != nil {
		r.Fatalf("Rollback: %v", err)
	}
	outcome(r.T, w, fill.Abandoned)
	mayCommit(r.T, old, nil)
	mayCommit(r.T, l, fill.ErrSettled)
	busy(r.T, r.k, r.key)
	gauges(r.T, r.k, 1, 0, 0)
	if err := old.Context().Err(); err != nil {
		r.Errorf("context of the restored: %v", err)
	}
	began := time.Now()
	<-old.Context().Done()
	if took := time.Since(began); took != Tenure {
		r.Errorf("the restored lease's tenure took %v, want %v", took, Tenure)
	}
}

func rollbackRestoresLapsed(r *rig) {
	old := r.acquire()
	time.Sleep(Tenure / 2)
	l := r.supersede()
	time.Sleep(Tenure - 1)
	if err := l.Rollback(); err != nil {
		r.Fatalf("Rollback: %v", err)
	}
	mayCommit(r.T, old, nil) // its time was over, its right is back
	l = r.acquire()
	mayCommit(r.T, old, fill.ErrLeaseLost)
	if err := l.Rollback(); err != nil {
		r.Fatalf("Rollback: %v", err)
	}
	mayCommit(r.T, old, nil)
	if err := old.Renew(); err != nil {
		r.Errorf("Renew: %v", err)
	}
	busy(r.T, r.k, r.key)
}

func rollbackSkipsGone(r *rig) {
	first := r.acquire()
	second := r.supersede()
	third := r.supersede()
	if err := second.Rollback(); !errors.Is(err, fill.ErrSuperseded) {
		r.Errorf("Rollback of the displaced: %v", err)
	}
	if err := third.Rollback(); err != nil {
		r.Fatalf("Rollback: %v", err)
	}
	mayCommit(r.T, second, fill.ErrSuperseded)
	mayCommit(r.T, first, nil) // past second, which was undone too

	second = r.supersede()
	third = r.supersede()
	settleFails(r.T, second, fill.ErrSuperseded)
	if err := third.Rollback(); err != nil {
		r.Fatalf("Rollback: %v", err)
	}
	mayCommit(r.T, first, fill.ErrSuperseded) // second had the key, and is done

	first = r.acquire()
	second = r.supersede()
	settleFails(r.T, first, fill.ErrSuperseded)
	if err := second.Rollback(); err != nil {
		r.Fatalf("Rollback: %v", err)
	}
	settle(r.T, r.acquire(), fill.Stored) // nobody to restore: the key is free
}

func rollbackRefused(r *rig) {
	first := r.acquire()
	second := r.supersede()
	third := r.supersede()
	if err := second.Rollback(); !errors.Is(err, fill.ErrSuperseded) {
		r.Errorf("Rollback of the displaced: %v, want ErrSuperseded", err)
	}
	mayCommit(r.T, third, nil)
	mayCommit(r.T, first, fill.ErrSuperseded)
	busy(r.T, r.k, r.key)
	if got := r.k.Stats().RollbackRefused; got != 1 {
		r.Errorf("%d rollbacks refused, want 1", got)
	}
}

func queueHolds(r *rig) {
	const delay = time.Minute
	c := r.queue(delay)
	gauges(r.T, r.k, 0, 1, 0)
	busy(r.T, r.k, r.key)
	if _, err := r.k.Queue(r.key, 0); !errors.Is(err, fill.ErrBusy) {
		r.Errorf("second Queue: %v, want ErrBusy", err)
	}
	began := time.Now()
	<-c.Context().Done()
	if took := time.Since(began); took != delay+Tenure {
		r.Errorf("the claim was kept for %v, want %v", took, delay+Tenure)
	}
	cause(r.T, c.Context(), fill.ErrTenureOver)
	gauges(r.T, r.k, 0, 0, 0)
}

func queueDisplaced(r *rig) {
	c := r.queue(time.Minute)
	ctx := c.Context()
	newer, err := r.k.QueueNewer(r.key, time.Minute)
	if err != nil {
		r.Fatalf("QueueNewer: %v", err)
	}
	cause(r.T, ctx, fill.ErrSuperseded)
	if l, err := c.Start(); !errors.Is(err, fill.ErrSuperseded) {
		r.Errorf("Start of the displaced: %v, %v, want ErrSuperseded", l, err)
	}
	l, err := newer.Start()
	if err != nil {
		r.Fatalf("Start: %v", err)
	}
	gauges(r.T, r.k, 1, 0, 0)
	if _, err := newer.Start(); !errors.Is(err, fill.ErrStarted) {
		r.Errorf("second Start: %v, want ErrStarted", err)
	}
	settle(r.T, l, fill.Stored)

	c = r.queue(time.Minute)
	newer, err = r.k.QueueNewer(r.key, time.Minute)
	if err != nil {
		r.Fatalf("QueueNewer: %v", err)
	}
	if err := newer.Rollback(); err != nil {
		r.Fatalf("Rollback: %v", err)
	}
	gauges(r.T, r.k, 0, 1, 0)
	l, err = c.Start() // not left marked as displaced
	if err != nil {
		r.Fatalf("Start after the newer claim was rolled back: %v", err)
	}
	settle(r.T, l, fill.Stored)
}

func queueLapsed(r *rig) {
	c := r.queue(time.Second)
	time.Sleep(time.Second + Tenure + 1)
	gauges(r.T, r.k, 0, 0, 0)
	l, err := c.Start()
	if err != nil {
		r.Fatalf("Start of a lapsed claim: %v", err)
	}
	busy(r.T, r.k, r.key)
	if err := l.Context().Err(); err != nil {
		r.Errorf("context of the started: %v", err)
	}
	settle(r.T, l, fill.Stored)
}

func queueOlder(r *rig) {
	c := r.queue(0)
	time.Sleep(Tenure + 1)
	newer := r.acquire()
	if l, err := c.Start(); !errors.Is(err, fill.ErrSuperseded) {
		r.Errorf("Start: %v, %v, want ErrSuperseded", l, err)
	}
	mayCommit(r.T, newer, nil)
	if err := newer.Context().Err(); err != nil {
		r.Errorf("the newer holder's context: %v", err)
	}
	settle(r.T, newer, fill.Stored)
	if _, err := c.Start(); !errors.Is(err, fill.ErrSuperseded) {
		r.Errorf("Start after the newer holder: %v, want ErrSuperseded", err)
	}
}

func queueWaits(r *rig) {
	c := r.queue(time.Minute)
	began := time.Now()
	l, err := c.Wait(r.Context(), time.Minute)
	if err != nil || time.Since(began) != time.Minute {
		r.Fatalf("Wait: %v after %v", err, time.Since(began))
	}
	settle(r.T, l, fill.Stored)

	c = r.queue(time.Minute)
	time.AfterFunc(time.Second, func() { r.k.Displace(r.key) })
	began = time.Now()
	if _, err = c.Wait(r.Context(), time.Minute); !errors.Is(err, fill.ErrSuperseded) || time.Since(began) != time.Second {
		r.Errorf("Wait of a displaced claim: %v after %v", err, time.Since(began))
	}

	c = r.queue(time.Minute)
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	if _, err = c.Wait(ctx, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
		r.Errorf("Wait: %v", err)
	}
	settle(r.T, r.acquire(), fill.Stored) // rolled back
}

func queueClosed(r *rig) {
	c := r.queue(time.Hour)
	done := make(chan error)
	go func() {
		_, err := c.Wait(context.Background(), time.Hour)
		done <- err
	}()
	synctest.Wait()
	if err := r.k.Close(r.Context()); err != nil {
		r.Fatal(err)
	}
	if err := <-done; !errors.Is(err, fill.ErrClosed) {
		r.Errorf("Wait: %v, want ErrClosed", err)
	}
}
