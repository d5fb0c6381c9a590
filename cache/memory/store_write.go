package memory

import (
	"github.com/swrproxy/swrproxy/cache"
)

// Put publishes r: the next Get of its key returns it or a newer one. A record of more than an eighth of the budget is refused if
// ristretto does not want it: it is too large for probation.
func (s *Store) Put(r *cache.Record) cache.PutResult {
	r.Prepare()
	h := s.hash(r.Key)
	a := newArrival(h, r)
	large := a.cost > s.sizes.window
	result, queued := s.arrive(a, false)
	if result == cache.PutUnknown {
		s.settle.barrier(s)
		result, queued = s.arrive(a, true)
	}
	if !queued {
		return result
	}
	s.settle.push(a)
	if large || s.counts.arriving.Load() > s.sizes.arrivals+s.sizes.window {
		s.settle.pass(s)
	}
	if large && result == cache.PutStored && s.wasRejected(a) {
		return cache.PutRefused
	}
	return result
}

func (s *Store) wasRejected(a *arrival) bool {
	sh := s.shard(a.hash)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	return a.rejected
}

// arrive puts a into the overlay. A straggler, whose token is below one that its shard has seen, gets no result at first: ristretto may
// just have dropped a newer record of the key and not said so yet. After a barrier it has, so the second time is sure.
func (s *Store) arrive(a *arrival, sure bool) (result cache.PutResult, queued bool) {
	sh := s.shard(a.hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.closed {
		return cache.PutRefused, false
	}
	have, rec := s.peekLocked(sh, a.hash), a.own.rec
	switch {
	case have == rec:
		return cache.PutStored, false
	case have != nil && have.Key == rec.Key && have.Token > rec.Token, sh.ghosts.Floor(a.hash) > rec.Token:
		return cache.PutOlder, false
	case have == nil && !sure && rec.Token < sh.newest:
		return cache.PutUnknown, false
	case a.cost > s.sizes.main:
		return s.refuseLocked(sh, a, have)
	}
	sh.newest = max(sh.newest, rec.Token)
	s.replaceLocked(sh, a)
	return cache.PutStored, true
}

// refuseLocked turns a down for its size. The record that it would have replaced has been overtaken, so that goes.
func (s *Store) refuseLocked(sh *shard, a *arrival, have *cache.Record) (cache.PutResult, bool) {
	rec := a.own.rec
	s.counts.rejected.Add(1)
	sh.newest = max(sh.newest, rec.Token)
	sh.ghosts.Add(a.hash, rec.Token)
	if have == nil || have.Key != rec.Key {
		return cache.PutRefused, false
	}
	a.own.rec, a.cost = nil, 0
	s.replaceLocked(sh, a)
	return cache.PutRefused, true
}

// Delete forgets the record of this key if its token is not above token, and tells whether there was one.
func (s *Store) Delete(key string, token uint64) bool {
	h := s.hash(key)
	a := newArrival(h, nil)
	if !s.depart(key, token, a) {
		return false
	}
	s.settle.push(a)
	return true
}

func (s *Store) depart(key string, token uint64, a *arrival) bool {
	sh := s.shard(a.hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	have := s.peekLocked(sh, a.hash)
	if have == nil || have.Key != key || have.Token > token {
		return false
	}
	s.counts.purged.Add(1)
	sh.ghosts.Add(a.hash, have.Token)
	s.replaceLocked(sh, a)
	return true
}

// replaceLocked makes a the latest change of its key.
func (s *Store) replaceLocked(sh *shard, a *arrival) {
	if before := sh.arrived[a.hash]; before != nil {
		s.countLocked(before, -1)
		s.forget(before.in) // where ristretto holds it, a takes its place in a moment
	}
	sh.arrived[a.hash] = a
	s.countLocked(a, 1)
}

// leaveLocked takes a out of the overlay.
func (s *Store) leaveLocked(sh *shard, a *arrival) {
	s.countLocked(a, -1)
	delete(sh.arrived, a.hash)
}

func (s *Store) countLocked(a *arrival, sign int64) {
	if a.in.rec != nil {
		s.counts.arriving.Add(sign * a.cost)
		s.counts.arrivingRecs.Add(sign)
	}
}
