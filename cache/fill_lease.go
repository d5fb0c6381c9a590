package cache

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/swrproxy/swrproxy/fill"
)

// stallFactor times the tenure is how long a fill whose lease is over may go on without progress: a late result is still
// useful, a connection held for ever is not.
const stallFactor = 6

// leaseEnded cancels the exchange when the lease ended in a way that makes its result worthless.
func (fl *flight) leaseEnded() {
	cause := context.Cause(fl.lease.Context())
	switch {
	case errors.Is(cause, fill.ErrTenureOver):
		fl.failed(cause, time.Now())
		fl.c.obs.Noted(&Note{Kind: NoteTenure, Key: fl.url(), Text: "fill said nothing for its tenure; the key is free again", Err: cause})
	case errors.Is(cause, fill.ErrSuperseded), errors.Is(cause, fill.ErrLeaseLost):
		if !fl.watched() {
			fl.stop(cause)
		}
	}
}

// slotAtOnce gets one of the origin's fill places if there is one left.
func (fl *flight) slotAtOnce() bool {
	return fl.rule.slots == nil || fl.rule.slots.TryAcquire(1)
}

// takeSlot gets one of the origin's fill places, which giveSlot gives back: at once for a background fill, or not at all; else in turn. The claim
// on the key is kept while queueing.
func (fl *flight) takeSlot() error {
	switch {
	case fl.slotAtOnce():
		return nil
	case fl.background:
		return errNoSlot
	}
	stop := fl.renewing()
	defer stop()
	if err := fl.rule.slots.Acquire(fl.ctx, 1); err != nil {
		return context.Cause(fl.ctx)
	}
	return nil
}

func (fl *flight) giveSlot() {
	if fl.rule.slots != nil {
		fl.rule.slots.Release(1)
	}
}

// renewing keeps the lease while the fill queues, until stop returns.
func (fl *flight) renewing() (stop func()) {
	every := fl.c.fillCfg.Tenure / 3
	var mu sync.Mutex // guards stopped, so that a callback that is under way sets the timer no more
	stopped := false
	var t *time.Timer
	mu.Lock()
	defer mu.Unlock()
	t = time.AfterFunc(every, func() {
		mu.Lock()
		defer mu.Unlock()
		if !stopped {
			fl.progress()
			t.Reset(every)
		}
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		t.Stop()
	}
}
