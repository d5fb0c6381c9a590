package origin

import (
	"sync/atomic"
	"time"
)

// idleTimer limits the silences of one body after another. They are kept in their pool, since a timer and its function
// would be two allocations for each exchange.
type idleTimer struct {
	timer *time.Timer // calls fire
	body  atomic.Pointer[body]
}

// neverYet is a timer's first setting; Reset follows before anything can happen.
const neverYet = time.Hour

// idleTimer returns a timer for b that does not run yet.
func (p *Pool) idleTimer(b *body) *idleTimer {
	it, ok := p.timers.Get().(*idleTimer)
	if !ok {
		it = new(idleTimer)
		it.timer = time.AfterFunc(neverYet, it.fire)
	}
	it.body.Store(b)
	return it
}

func (it *idleTimer) fire() {
	if b := it.body.Load(); b != nil {
		b.expire()
	}
}

// stop reports whether the timer was running and will not fire. it may be nil.
func (it *idleTimer) stop() bool { return it != nil && it.timer.Stop() }
