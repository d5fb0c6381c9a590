package memory

import (
	"time"

	"github.com/dgraph-io/ristretto/v2"

	"github.com/swrproxy/swrproxy/cache"
)

// never is the period of ristretto's expiry sweep in seconds, a year: nothing in it expires.
const never = 365 * 24 * 60 * 60

func (s *Store) newTier() (*ristretto.Cache[uint64, *held], error) {
	return ristretto.NewCache(&ristretto.Config[uint64, *held]{
		NumCounters:            s.sizes.counters,
		MaxCost:                s.sizes.main,
		BufferItems:            64, // ristretto's advice
		IgnoreInternalCost:     true,
		TtlTickerDurationInSec: never,
		// Keys are hashed already, with a seed that no client knows.
		KeyToHash: func(h uint64) (uint64, uint64) { return h, 0 },
		OnEvict:   s.tierEvicted,
		OnExit:    s.tierDropped,
	})
}

// tierEvicted counts a record that ristretto dropped for room and remembers its token. Called on ristretto's goroutine, before tierDropped.
func (s *Store) tierEvicted(item *ristretto.Item[*held]) {
	if item.Value == nil || s.closing.Load() {
		return
	}
	// One that is still in the overlay is not gone: it goes on probation.
	if s.shard(item.Key).bury(item.Key, item.Value) {
		s.countDropped(item.Value.rec, &s.counts.evicted)
	}
}

// tierDropped notes that ristretto no longer holds h, or never took it. Called on ristretto's goroutine, or on the settler's when it
// replaces or deletes.
func (s *Store) tierDropped(h *held) {
	if h == nil || s.closing.Load() {
		return
	}
	s.counts.records.Add(-1)
	hash := s.hash(h.rec.Key)
	if !s.shard(hash).dropped(hash, h) {
		s.forget(h)
	}
}

// countDropped counts r as expired if nothing could have been answered with it any more, else in other.
func (s *Store) countDropped(r *cache.Record, other interface{ Add(int64) int64 }) {
	if r.Index == nil && time.Now().After(lastUse(r)) {
		s.counts.expired.Add(1)
		return
	}
	other.Add(1)
}

// lastUse is the end of the last window in which r may answer without its origin.
func lastUse(r *cache.Record) time.Time {
	l := &r.Life
	return l.BornAt.Add(l.FreshFor + max(l.StaleFor, l.ErrorFor))
}
