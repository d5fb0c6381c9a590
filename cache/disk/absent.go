package disk

import "sync/atomic"

// absentSlots is how many keys are remembered: some batches of what the writer carries at once.
const absentSlots = 1 << 14

// absent remembers, in slots that a later key takes over, hashes of keys that the database does not hold. Of a miss that is stored the
// engine asks three times and Put once; so one of them looks, and tells the writer. What is in it is right whenever it is read: only the writer
// puts keys into the database, and it takes theirs out of here before they leave the queue.
//
// Safe for concurrent use.
type absent struct{ slots [absentSlots]atomic.Uint64 }

func (a *absent) slot(h uint64) *atomic.Uint64 { return &a.slots[h%absentSlots] }

// has tells whether h is known not to be in the database. A key in the queue may be.
func (a *absent) has(h uint64) bool { return h != 0 && a.slot(h).Load() == h }

func (a *absent) add(h uint64) { a.slot(h).Store(h) }

func (a *absent) remove(h uint64) { a.slot(h).CompareAndSwap(h, 0) }

// noteAbsent remembers that the database was without h, unless a batch was finished since the look began:
//
//	reader                      writer
//	seen: 1
//	does not find h
//	                            commits h
//	                            finish: removals 2, takes h out
//	noteAbsent(1): too late
func (s *Store) noteAbsent(h, seen uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.removals.Load() == seen {
		s.absent.add(h)
	}
}
