package cache

import (
	"context"
	"sync"
	"time"
)

// watchAfter is how long a fill runs before its lease is watched. Most fills are over by then and need no watch; what happens to the
// lease in this time is seen at its end, and a commit asks the lease in any case.
const watchAfter = 20 * time.Millisecond

// fillWatch watches one fill after another for the end of its lease and for a stall. They are kept by their cache, since what a watch is
// made of would be a dozen allocations for each fill.
type fillWatch struct {
	timer *time.Timer // calls fire

	mu      sync.Mutex  // guards following
	fl      *flight     // nil: between two fills
	unwatch func() bool // nil while the lease is not watched
}

// watch begins to watch fl. The caller ends it with stop.
func (c *Cache) watch(fl *flight) *fillWatch {
	w, ok := c.watches.Get().(*fillWatch)
	if !ok {
		w = &fillWatch{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fl = fl
	first := min(watchAfter, stallFactor*c.fillCfg.Tenure)
	if w.timer == nil {
		w.timer = time.AfterFunc(first, w.fire)
	} else {
		w.timer.Reset(first)
	}
	return w
}

// stop ends the watch. One whose timer may be firing right now is not used again.
func (w *fillWatch) stop() {
	w.mu.Lock()
	c := w.fl.c
	if w.unwatch != nil {
		w.unwatch()
	}
	w.fl, w.unwatch = nil, nil
	w.mu.Unlock()
	if w.timer.Stop() {
		c.watches.Put(w)
	}
}

// fire begins to watch the lease, and cancels an exchange in which no byte came for stallFactor tenures.
func (w *fillWatch) fire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	fl := w.fl
	if fl == nil {
		return
	}
	if fl.lease != nil && w.unwatch == nil {
		w.unwatch = context.AfterFunc(fl.lease.Context(), fl.leaseEnded)
	}
	limit := stallFactor * fl.c.fillCfg.Tenure
	idle := time.Since(time.Unix(0, fl.progressAt.Load()))
	switch {
	case fl.waits.Load():
		idle = 0
	case idle >= limit:
		fl.stop(errStalled)
		return
	}
	w.timer.Reset(limit - idle)
}
