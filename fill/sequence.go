package fill

import "sync/atomic"

// Sequence hands out the ever-growing numbers that order fills and invalidations. A process has one; what began later has the
// higher number. Safe for concurrent use.
type Sequence struct {
	last atomic.Uint64
}

// NewSequence returns a sequence whose first number is above atLeast.
func NewSequence(atLeast uint64) *Sequence {
	s := &Sequence{}
	s.last.Store(atLeast)
	return s
}

// Next returns a number above all that were returned before.
func (s *Sequence) Next() uint64 {
	return s.last.Add(1)
}

// Last returns the number that Next returned last, or that Bump raised it to.
func (s *Sequence) Last() uint64 {
	return s.last.Load()
}

// Bump makes every later Next return more than atLeast. It never takes the sequence back.
func (s *Sequence) Bump(atLeast uint64) {
	for {
		last := s.last.Load()
		if last >= atLeast || s.last.CompareAndSwap(last, atLeast) {
			return
		}
	}
}
