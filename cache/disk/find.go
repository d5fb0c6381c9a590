package disk

import (
	"go.etcd.io/bbolt"

	"github.com/swrproxy/swrproxy/cache"
)

// Find calls f with each record that has term until f returns false, in no order, each once. It reads what it finds and little else; bodies are
// read when they are opened. No lock and no transaction is held while f runs.
//
// What is put comes into the queue, then among the pending changes of the index, then into the index's bucket, and leaves each place only when it is in
// the next. Find looks in the same order, so it misses nothing that moves on meanwhile.
func (s *Store) Find(term string, f func(*cache.Record) bool) {
	hash := s.termHash(term)
	queued := s.having(hash)
	pending := s.pending.Load().of(hash)
	for h, r := range queued {
		if r = s.latest(h, r); r != nil && hasTerm(r, term) && !f(r) {
			return
		}
	}
	for from, more := uint64(0), true; more; {
		var page []entry
		page, from, more = s.findPage(pending, pair{hash, from}, term)
		for _, e := range page {
			if _, seen := queued[e.hash]; seen {
				continue
			}
			if r, known := s.queued(e.hash); known {
				e.rec = r // replaced or deleted since the page was read; it must not slip through
			}
			if e.rec != nil && hasTerm(e.rec, term) && !f(e.rec) {
				return
			}
		}
	}
}

// having returns the records in the queue that may have a term.
func (s *Store) having(term uint64) map[uint64]*cache.Record {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil
	}
	return s.queue.having(term)
}

// findPage lists records that have a term, from a pair of the index on. pending are the changes of the term that the bucket may lack. Damaged
// records are left to Get.
func (s *Store) findPage(pending []pair, from pair, term string) (list []entry, next uint64, more bool) {
	err := s.view(func(tx *bbolt.Tx) error {
		recent, records := locationIndex(tx)
		terms := groups{tx.Bucket(bucketTerms), byBoth}
		n := 0
		for p := range byBoth.present(sourceOf(pending[searchPairs(pending, from):]), terms.from(from).next) {
			if p.hash != from.hash {
				return nil
			}
			if more = n == walkPage; more {
				next = p.at
				return nil
			}
			n++
			r := s.listed(tx, p.at, locate(recent, records, p.at)) // nil if it went after pending was read
			if r != nil && hasTerm(r, term) {
				list = append(list, entry{p.at, r})
			}
		}
		return nil
	})
	return list, next, more && err == nil
}

func sourceOf(list []pair) source {
	return func() (p pair, ok bool) {
		if len(list) == 0 {
			return pair{}, false
		}
		p, list = list[0], list[1:]
		return p, true
	}
}

var _ cache.Finder = (*Store)(nil)
