package memory

import (
	"math/rand/v2"

	"github.com/swrproxy/swrproxy/cache"
)

// oneReadIn is which part of the reads ristretto counts while there is room: to count one costs more than the look-up, and nothing hangs on it yet.
const oneReadIn = 32

// Get returns the record of this full key. It neither keeps key nor allocates.
func (s *Store) Get(key string) (*cache.Record, bool) {
	h := s.hash(key)
	sh := s.shard(h)
	sh.mu.RLock()
	r := s.askLocked(sh, h, key)
	sh.mu.RUnlock()
	return r, r != nil
}

func (s *Store) askLocked(sh *shard, h uint64, key string) *cache.Record {
	if (s.tight.Load() || rand.Uint32()%oneReadIn == 0) && !sh.closed {
		s.tier.Get(h) // also if there is nothing: the frequency of newcomers counts
	}
	if p := sh.recent.find(h); p != 0 {
		if r := s.chunks.record(p); r.Key == key {
			return r
		}
	}
	e := sh.index.find(h)
	if e == nil {
		return nil
	}
	r := s.chunks.record(e.place())
	if r.Key != key {
		return nil
	}
	if e.ask() == settled {
		sh.recent.note(h, e.place())
	}
	return r
}

// Walk calls f with each record until it returns false. It holds no lock meanwhile.
func (s *Store) Walk(f func(*cache.Record) bool) {
	var list []*cache.Record
	for i := range s.shards {
		list = s.appendAll(list[:0], &s.shards[i])
		for _, r := range list {
			if r = s.latest(r); r != nil && !f(r) {
				return
			}
		}
	}
}

func (s *Store) appendAll(list []*cache.Record, sh *shard) []*cache.Record {
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	for i := range sh.index.entries {
		if p := sh.index.entries[i].place(); p != 0 {
			list = append(list, s.chunks.record(p))
		}
	}
	return list
}

// latest returns what took the place of r meanwhile, r itself if nothing did, nil if it was deleted: a record that is replaced during a walk must
// not slip through it.
func (s *Store) latest(r *cache.Record) *cache.Record { return s.holding(s.hash(r.Key)) }

// holding returns what a hash holds now, nil if nothing. It does not count as a use.
func (s *Store) holding(hash uint64) *cache.Record {
	sh := s.shard(hash)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	return s.peekLocked(sh, hash)
}

// Stats returns the store's counters and gauges.
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
		st.Records, st.Bytes = c.records.Load(), c.bytes.Load()
	}
	return st
}
