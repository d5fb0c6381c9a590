package memory

import (
	"github.com/swrproxy/swrproxy/cache"
)

// Put publishes r: the next Get of its key returns it or a newer one. A record of more than an eighth of the budget is refused if
// ristretto does not want it: it is too large for probation.
func (s *Store) Put(r *cache.Record) cache.PutResult {
	c := &change{hash: s.hash(r.Key), cost: r.Cost(), id: s.nextID()}
	result, queued := s.arrive(c, r)
	if !queued {
		return result
	}
	large := c.cost > s.sizes.window
	if large {
		s.countNow(c.hash)
	}
	s.settle.push(c)
	if large || s.counts.unsettled.Load() > s.sizes.arrivals+s.sizes.window {
		s.settle.pass(s)
	}
	if large && result == cache.PutStored && s.wasRejected(c) {
		return cache.PutRefused
	}
	return result
}

// BodyLimit is what ristretto's share of the budget leaves to a body.
func (s *Store) BodyLimit() int64 { return max(s.sizes.main-cache.UsualFields, 0) }

func (s *Store) nextID() arrivalID {
	for {
		if id := arrivalID(s.counts.arrivals.Add(1) % (1 << idBits)); id != 0 {
			return id
		}
	}
}

func (s *Store) wasRejected(c *change) bool {
	sh := s.shard(c.hash)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	return c.rejected
}

// arrive makes r the record of its key, unless there is a newer one or it is too large.
func (s *Store) arrive(c *change, r *cache.Record) (result cache.PutResult, queued bool) {
	sh := s.shard(c.hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.closed {
		return cache.PutRefused, false
	}
	have := s.peekLocked(sh, c.hash)
	switch {
	case have == r:
		return cache.PutStored, false
	case have != nil && have.Key == r.Key && have.Token > r.Token, sh.ghosts.Floor(c.hash) > r.Token:
		return cache.PutOlder, false
	case c.cost > s.sizes.main:
		return s.refuseLocked(sh, c, r, have)
	}
	number, ok := s.chunks.add(cache.Alone(r))
	if !ok {
		return s.refuseLocked(sh, c, r, have)
	}
	s.setLocked(sh, c, placeOf(number, 0), have)
	return cache.PutStored, true
}

// refuseLocked turns r down. The record that it would have replaced has been overtaken, so that goes.
func (s *Store) refuseLocked(sh *shard, c *change, r, have *cache.Record) (cache.PutResult, bool) {
	s.counts.rejected.Add(1)
	sh.ghosts.Add(c.hash, r.Token)
	if have == nil || have.Key != r.Key {
		return cache.PutRefused, false
	}
	s.unsetLocked(sh, c, have)
	return cache.PutRefused, true
}

// Delete forgets the record of this key if its token is not above token, and tells whether there was one.
func (s *Store) Delete(key string, token uint64) bool {
	c := &change{hash: s.hash(key)}
	if !s.depart(key, token, c) {
		return false
	}
	s.settle.push(c)
	return true
}

func (s *Store) depart(key string, token uint64, c *change) bool {
	sh := s.shard(c.hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	have := s.peekLocked(sh, c.hash)
	if have == nil || have.Key != key || have.Token > token {
		return false
	}
	s.counts.purged.Add(1)
	sh.ghosts.Add(c.hash, have.Token)
	s.unsetLocked(sh, c, have)
	return true
}
