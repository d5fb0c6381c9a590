package tiered

import "sync"

const (
	stripeBits = 10
	numStripes = 1 << stripeBits
)

// stripe keeps changes of its keys, promotions and reads apart. A change marks the stripe busy before it touches the first tier and has
// its last step, in memory, under the lock; a promotion puts into memory under the lock too, and only if no change was under way
// when it looked and none has begun since:
//
//	promotion                   delete
//	look: quiet, ticket 1
//	reads the record on disk
//	                            begin: ticket 2
//	                            deletes on disk
//	                            end: deletes in memory
//	ifSame(1): not any more, the record stays out
//
// Two changes at once may reach the tiers in different orders. One that was not alone can not know whether disk still holds what it
// put there, so it leaves memory without the key, and the next read promotes:
//
//	put of token 1              put of token 2              reader
//	disk takes 1
//	                            disk takes 2
//	                                                        finds 2 on disk
//	would put 1 into memory
//	                                                        would find 1 there
type stripe struct {
	mu      sync.Mutex // guards following
	ticket  uint64     // counts changes begun; never 0 once one has
	changes int        // under way
}

func (s *Store) stripe(h uint64) *stripe { return &s.stripes[h>>(64-stripeBits)] }

// begin starts a change. The ticket is 0 if another is under way.
func (st *stripe) begin() (ticket uint64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.ticket++
	st.changes++
	if st.changes > 1 {
		return 0
	}
	return st.ticket
}

// end runs the last step of a change and tells it whether it was alone from begin to end. last must not wait for I/O.
func (st *stripe) end(ticket uint64, last func(alone bool)) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.changes--
	last(st.ticket == ticket)
}

func (st *stripe) look() (ticket uint64, quiet bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.ticket, st.changes == 0
}

// ifSame runs f if no change has begun since look, and tells whether it did.
func (st *stripe) ifSame(ticket uint64, f func()) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ticket != ticket {
		return false
	}
	f()
	return true
}

// seen remembers which keys were read from disk lately, in slots that a later key takes over. Safe for concurrent use.
type seen struct {
	mu    sync.Mutex // guards following
	slots [4096]uint64
}

// again tells whether h was asked for before.
func (s *seen) again(h uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := &s.slots[h%uint64(len(s.slots))]
	if *slot == h {
		return true
	}
	*slot = h
	return false
}
