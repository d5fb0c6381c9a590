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
)

// shard holds the overlay for a part of the keys. Every change of a key happens under its shard's lock, so changes have one
// order; readers hold it too, which is what lets Close wait for them.
type shard struct {
	mu      sync.RWMutex // guards following
	arrived map[uint64]*arrival
	ghosts  forgotten.Tokens
	newest  uint64 // the highest token of any record put
	closed  bool
}

// arrival is a change of one key that ristretto does not show yet.
type arrival struct {
	hash uint64
	rec  *cache.Record // nil: the key was deleted
	cost int64
	// read is set by a Get, and makes a record on probation be offered again.
	read atomic.Bool

	// Guarded by the shard's lock.
	out       bool // ristretto does not hold rec
	probation bool // it was refused once
	again     bool // the present offer is its second
	rejected  bool // ristretto did not want it, and it is forgotten
}

func (sh *shard) init() {
	sh.arrived = make(map[uint64]*arrival)
	sh.ghosts = forgotten.New(ghostsPerShard)
}

func (sh *shard) close() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.closed = true
	clear(sh.arrived)
}

// bury remembers the token of r, which is forgotten unless the overlay holds it.
func (sh *shard) bury(h uint64, r *cache.Record) (forgotten bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if a := sh.arrived[h]; a != nil && a.rec == r {
		return false
	}
	sh.ghosts.Add(h, r.Token)
	return true
}

// dropped marks the arrival of r, if there is one, as not held by ristretto.
func (sh *shard) dropped(h uint64, r *cache.Record) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if a := sh.arrived[h]; a != nil && a.rec == r {
		a.out = true
	}
}

// isCurrentLocked tells whether a is still its key's latest change.
func (sh *shard) isCurrentLocked(a *arrival) bool { return sh.arrived[a.hash] == a }
