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
	cost int64
	own  held // where the record is at first; without one the key was deleted
	// read is set by a Get, and makes a record on probation be offered again.
	read atomic.Bool

	// Guarded by the shard's lock.
	in        *held // own, or a slot
	out       bool  // ristretto does not hold rec
	probation bool  // it was refused once
	again     bool  // the present offer is its second
	rejected  bool  // ristretto did not want it, and it is forgotten
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

// newArrival is one of a record, nil for a deletion.
func newArrival(hash uint64, rec *cache.Record) *arrival {
	a := &arrival{hash: hash, own: held{rec: rec}}
	a.in = &a.own
	if rec != nil {
		a.cost = rec.Cost()
	}
	return a
}

// bury remembers the token of what ristretto dropped, which is forgotten unless the overlay holds it.
func (sh *shard) bury(hash uint64, h *held) (forgotten bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if a := sh.arrived[hash]; a != nil && a.in == h {
		return false
	}
	sh.ghosts.Add(hash, h.rec.Token)
	return true
}

// dropped marks the arrival of h as not held by ristretto, and tells whether there is one.
func (sh *shard) dropped(hash uint64, h *held) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	a := sh.arrived[hash]
	if a == nil || a.in != h {
		return false
	}
	a.out = true
	return true
}

// isCurrentLocked tells whether a is still its key's latest change.
func (sh *shard) isCurrentLocked(a *arrival) bool { return sh.arrived[a.hash] == a }
