package origin

import (
	"sync/atomic"
	"time"
)

// health is one URL's record of failures in a row. Times are spans since the pool's epoch, so that a stepping wall clock
// changes nothing; 0 in downUntil means up.
//
// Safe for concurrent use.
type health struct {
	maxFails  int32
	failFor   time.Duration
	fails     atomic.Int32
	downUntil atomic.Int64
}

// usable reports whether a request may go to this URL. Once a downtime is over, one caller is let through as a probe:
// it pushes the end further, so that the others keep away until the outcome is known.
func (h *health) usable(now func() time.Duration) (ok, probe bool) {
	until := h.downUntil.Load()
	if until == 0 {
		return true, false
	}
	t := now()
	if t < time.Duration(until) {
		return false, false
	}
	return h.downUntil.CompareAndSwap(until, int64(t+h.failFor)), true
}

// failed counts a failure.
func (h *health) failed(now time.Duration) {
	if n := h.fails.Add(1); h.maxFails > 0 && n >= h.maxFails {
		h.downUntil.Store(int64(now + h.failFor))
	}
}

// answered notes a response head: the URL is up, but one failure in the body takes it out again if it was down.
func (h *health) answered() {
	if h.downUntil.Load() == 0 {
		return
	}
	h.fails.Store(h.maxFails - 1)
	h.downUntil.Store(0)
}

// succeeded notes a whole response.
func (h *health) succeeded() {
	if h.fails.Load() != 0 {
		h.fails.Store(0)
		h.downUntil.Store(0)
	}
}

// unproven lets the next request probe at once: this probe ended without an outcome, by its caller's doing.
func (h *health) unproven(now time.Duration) {
	if h.downUntil.Load() != 0 {
		h.downUntil.Store(max(int64(now), 1))
	}
}
