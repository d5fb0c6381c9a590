package cache

import (
	"math"
	"sync"
	"sync/atomic"
)

// ticket is the right to change what is stored by what an origin answered. Whatever asks an origin for something that may be stored, or that
// may change a stored response, opens a ticket before it asks and closes it when it can change nothing more. While it is open the log keeps every
// invalidation that is newer. The writer takes changes only for an open ticket.
type ticket struct {
	// token is the number of the exchange: invalidations with a higher one came after it began.
	token uint64
	// void means that the log gave up its entries for this ticket: nothing may be stored by it any more.
	void atomic.Bool

	// Guarded by tickets.mu.
	open         bool
	newer, older *ticket
}

// tickets are those that are open, in the order of their tokens. Safe for concurrent use.
type tickets struct {
	mu     sync.Mutex // guards following
	newest *ticket
	oldest *ticket
}

// add opens t. Tokens are drawn shortly before, so the place is near the end.
func (s *tickets) add(t *ticket, token uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.token, t.open = token, true
	before := s.newest
	for before != nil && before.token > token {
		before = before.older
	}
	t.older = before
	if before == nil {
		t.newer, s.oldest = s.oldest, t
	} else {
		t.newer, before.newer = before.newer, t
	}
	if t.newer == nil {
		s.newest = t
	} else {
		t.newer.older = t
	}
}

// remove closes t, and tells whether it was the oldest. It does nothing the second time.
func (s *tickets) remove(t *ticket) (wasOldest bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.removeLocked(t)
}

func (s *tickets) removeLocked(t *ticket) (wasOldest bool) {
	if !t.open {
		return false
	}
	wasOldest = s.oldest == t
	if t.newer == nil {
		s.newest = t.older
	} else {
		t.newer.older = t.older
	}
	if wasOldest {
		s.oldest = t.newer
	} else {
		t.older.newer = t.newer
	}
	t.open, t.newer, t.older = false, nil, nil
	return wasOldest
}

// voidBelow closes all tickets with a token below the limit: nothing is stored by them any more.
func (s *tickets) voidBelow(limit uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for t := s.oldest; t != nil && t.token < limit; t = s.oldest {
		t.void.Store(true)
		s.removeLocked(t)
	}
}

// lowest is the lowest token of any open ticket, the highest number there is if none is open.
func (s *tickets) lowest() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.oldest == nil {
		return math.MaxUint64
	}
	return s.oldest.token
}
