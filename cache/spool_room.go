package cache

import "sync/atomic"

// spoolFree is how large a body in memory may grow before it counts: most are smaller.
const spoolFree = 64 << 10

// spoolRoom bounds the memory of bodies that are on their way into a store without files: each is held whole, for its store and for clients that
// take it slowly. One may always be, whatever its size. Nil is without a bound. Safe for concurrent use.
type spoolRoom struct {
	max  int64
	used atomic.Int64
}

// newSpoolRoom returns the room for bodies of up to limit bytes each.
func newSpoolRoom(limit int64) *spoolRoom { return &spoolRoom{max: limit / 4} }

// fits tells whether there is room for n bytes now; a negative n is unknown.
func (r *spoolRoom) fits(n int64) bool {
	if r == nil || n <= spoolFree {
		return true
	}
	used := r.used.Load()
	return used == 0 || used+n <= r.max
}

// take counts n bytes more, of which had were counted before, if there is room.
func (r *spoolRoom) take(had, n int64) bool {
	if r == nil {
		return true
	}
	if used := r.used.Add(n - had); used <= r.max || used == n {
		return true
	}
	r.used.Add(had - n)
	return false
}

func (r *spoolRoom) give(n int64) {
	if r != nil {
		r.used.Add(-n)
	}
}
