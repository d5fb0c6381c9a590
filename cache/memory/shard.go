package memory

import (
	"sync"
	"sync/atomic"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/internal/forgotten"
)

const (
	shardBits = 6
	numShards = 1 << shardBits
	// ghostsPerShard bounds the tokens remembered of forgotten records: 16,384 in all, about half a megabyte.
	ghostsPerShard = 256
	// usualCrowd is how many changes of a shard are no burst.
	usualCrowd = 64
)

// shard holds a part of the keys. Every change of a key happens under its shard's lock, so changes have one order; readers hold it too, which is
// what keeps places valid for them and lets Close wait for them.
type shard struct {
	mu      sync.RWMutex // guards following
	index   index
	recent  recent
	changes map[uint64]*change // the latest of each key that ristretto does not know of yet
	crowd   int                // the most that changes has held
	ghosts  forgotten.Tokens
	closed  bool
}

// change is a record put or deleted, on its way to ristretto. Guarded by the shard's lock but for what never changes.
type change struct {
	hash uint64
	cost int64
	id   arrivalID // 0: the key was deleted

	again    bool // ristretto has refused it before
	out      bool // ristretto has dropped it, or would not take it
	rejected bool // it is forgotten for that
}

func (sh *shard) init() {
	sh.changes = make(map[uint64]*change)
	sh.ghosts = forgotten.New(ghostsPerShard)
}

func (sh *shard) close() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.closed = true
	sh.index, sh.recent = index{}, recent{}
	clear(sh.changes)
}

// isCurrentLocked tells whether c is still its key's latest change.
func (sh *shard) isCurrentLocked(c *change) bool { return sh.changes[c.hash] == c }

// noteLocked makes c the latest change of its key.
func (sh *shard) noteLocked(c *change) {
	sh.changes[c.hash] = c
	sh.crowd = max(sh.crowd, len(sh.changes))
}

// doneLocked forgets c, which is settled. A map keeps what it once needed, so after a burst there is a new one.
func (sh *shard) doneLocked(c *change) {
	delete(sh.changes, c.hash)
	if len(sh.changes) == 0 && sh.crowd > usualCrowd {
		sh.changes, sh.crowd = make(map[uint64]*change), 0
	}
}

// entryLocked is the entry that the arrival of this number brought, nil if it is gone or replaced.
func (sh *shard) entryLocked(hash uint64, id arrivalID) *entry {
	if e := sh.index.find(hash); e != nil && e.id() == id {
		return e
	}
	return nil
}

// peekLocked returns what a hash holds now, nil if nothing. It does not count as a use.
func (s *Store) peekLocked(sh *shard, hash uint64) *cache.Record {
	if e := sh.index.find(hash); e != nil {
		return s.chunks.record(e.place())
	}
	return nil
}

// setLocked makes what c brought to a place the record of its hash. The caller has peeked: have is what it replaces, nil for nothing.
func (s *Store) setLocked(sh *shard, c *change, p place, have *cache.Record) {
	s.changeTermsLocked(c.hash, have, s.chunks.record(p))
	if have != nil {
		s.dropLocked(sh, c.hash, have)
	}
	sh.index.put(c.hash, c.id, p, moving)
	s.counts.records.Add(1)
	s.countBytes(c.cost)
	s.counts.unsettled.Add(c.cost)
	sh.noteLocked(c)
}

// unsetLocked makes c the end of rec, the record of its hash.
func (s *Store) unsetLocked(sh *shard, c *change, rec *cache.Record) {
	s.removeLocked(sh, c.hash, rec)
	c.id, c.cost = 0, 0
	sh.noteLocked(c)
}

// loseLocked forgets the record that e is of, for which there is no room, and counts it in why.
func (s *Store) loseLocked(sh *shard, e *entry, why *atomic.Int64) {
	hash, rec := e.hash, s.chunks.record(e.place())
	s.removeLocked(sh, hash, rec)
	s.countDropped(rec, why)
	sh.ghosts.Add(hash, rec.Token)
}

// removeLocked forgets rec, the record of its hash.
func (s *Store) removeLocked(sh *shard, hash uint64, rec *cache.Record) {
	s.changeTermsLocked(hash, rec, nil)
	s.dropLocked(sh, hash, rec)
	sh.index.remove(hash)
}

// dropLocked lets go of rec, whose place the index names until the caller changes that.
func (s *Store) dropLocked(sh *shard, hash uint64, rec *cache.Record) {
	e, cost := sh.index.find(hash), rec.Cost()
	s.counts.records.Add(-1)
	s.countBytes(-cost)
	if e.standing() != settled {
		s.counts.unsettled.Add(-cost)
	}
	sh.recent.forget(hash)
	s.forget(e.place())
}

// countBytes counts what is held.
func (s *Store) countBytes(n int64) {
	tight := s.counts.bytes.Add(n) > s.sizes.tight
	if s.tight.Load() != tight {
		s.tight.Store(tight)
	}
}

// forget notes that no index names a place any more.
func (s *Store) forget(p place) {
	if s.chunks.drop(p) {
		s.settle.pushSparse(p.chunk())
	}
}
