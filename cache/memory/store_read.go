package memory

import (
	"github.com/swrproxy/swrproxy/cache"
)

// Get returns the record of this full key. It neither keeps key nor allocates.
func (s *Store) Get(key string) (*cache.Record, bool) {
	h := s.hash(key)
	sh := s.shard(h)
	sh.mu.RLock()
	r := s.lookLocked(sh, h)
	sh.mu.RUnlock()
	if r == nil || r.Key != key {
		return nil, false
	}
	return r, true
}

// lookLocked returns what h holds now, nil if nothing. It counts as a use of h: ristretto is asked even if the overlay knows
// better, so that the frequency of newcomers grows too.
func (s *Store) lookLocked(sh *shard, h uint64) *cache.Record {
	if sh.closed {
		return nil
	}
	r := s.tierGet(h)
	if len(sh.arrived) == 0 {
		return r
	}
	if a, ok := sh.arrived[h]; ok {
		a.read.Store(true)
		return a.in.rec
	}
	return r
}

func (s *Store) tierGet(h uint64) *cache.Record {
	if there, ok := s.tier.Get(h); ok {
		return there.rec
	}
	return nil
}

// peekLocked is lookLocked for a writer: a key that has nothing is not counted as used, else a scan of new keys would age the
// frequencies of all others.
func (s *Store) peekLocked(sh *shard, h uint64) *cache.Record {
	if a, ok := sh.arrived[h]; ok {
		return a.in.rec
	}
	if sh.closed {
		return nil
	}
	return s.tierPeek(h)
}

func (s *Store) tierPeek(h uint64) *cache.Record {
	if _, ok := s.tier.GetTTL(h); !ok {
		return nil
	}
	return s.tierGet(h)
}

// Walk calls f with each record until it returns false. It holds no lock meanwhile.
func (s *Store) Walk(f func(*cache.Record) bool) {
	overlay := s.arrivals()
	for h, r := range overlay {
		if r = s.latest(h, r); r != nil && !f(r) {
			return
		}
	}
	// Keys move from the overlay to ristretto and never back, so none slips through between the two lists; what ristretto held of
	// a key that was in the overlay may have been out of date.
	for _, r := range s.settled() {
		h := s.hash(r.Key)
		if _, ok := overlay[h]; ok {
			continue
		}
		if r = s.latest(h, r); r != nil && !f(r) {
			return
		}
	}
}

// arrivals returns the overlay: nil stands for a deleted key.
func (s *Store) arrivals() map[uint64]*cache.Record {
	overlay := map[uint64]*cache.Record{}
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.RLock()
		for h, a := range sh.arrived {
			overlay[h] = a.in.rec
		}
		sh.mu.RUnlock()
	}
	return overlay
}

func (s *Store) settled() []*cache.Record {
	list := make([]*cache.Record, 0, max(s.counts.records.Load(), 0))
	if s.closing.Load() {
		return nil
	}
	s.tier.IterValues(func(h *held) bool {
		list = append(list, h.rec)
		return false
	})
	return list
}

// latest returns what took the place of r meanwhile as far as the overlay knows, r itself if nothing did, nil if it was deleted: a record
// that is replaced during a walk must not slip through it.
func (s *Store) latest(h uint64, r *cache.Record) *cache.Record {
	sh := s.shard(h)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	if sh.closed {
		return nil
	}
	if a, ok := sh.arrived[h]; ok {
		return a.in.rec
	}
	return r
}

// Stats returns the store's counters and gauges. Records and Bytes count a record that is on its way into ristretto twice for
// some microseconds; after Sync they are exact.
func (s *Store) Stats() cache.StoreStats {
	c := &s.counts
	st := cache.StoreStats{
		Max:      s.sizes.max,
		Evicted:  c.evicted.Load(),
		Rejected: c.rejected.Load(),
		Expired:  c.expired.Load(),
		Purged:   c.purged.Load(),
	}
	if !s.closing.Load() {
		st.Records = c.records.Load() + c.arrivingRecs.Load()
		st.Bytes = s.sizes.main - s.tier.RemainingCost() + c.arriving.Load()
	}
	return st
}
