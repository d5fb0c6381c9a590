package memory

import "github.com/swrproxy/swrproxy/cache"

// findBatch is how many keys Find takes out of the index of terms under one lock: some microseconds of work.
const findBatch = 2 * leafLen

// Find calls f with each record that has term until it returns false. It holds no lock meanwhile, and waits for no I/O. A record that is
// replaced by one that has the term too is not missed. It does not count as a use.
func (s *Store) Find(term string, f func(*cache.Record) bool) {
	var room [findBatch]uint64
	first := newPair(s.termID(term), 0)
	list := s.terms.of(first.term)
	for from, more := first, true; more; {
		var keys []uint64
		keys, from, more = list.read(from, room[:0])
		if !s.show(keys, term, f) {
			return
		}
	}
}

// show calls f with what keys hold now, if it has the term itself and not only its hash, and tells whether to go on.
func (s *Store) show(keys []uint64, term string, f func(*cache.Record) bool) (more bool) {
	for _, hash := range keys {
		if r := s.holding(hash); r != nil && hasTerm(r, term) && !f(r) {
			return false
		}
	}
	return true
}

func hasTerm(r *cache.Record, term string) bool {
	for have := range r.Terms() {
		if have == term {
			return true
		}
	}
	return false
}

var _ cache.Finder = (*Store)(nil)
