package memory

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/ristretto/v2"

	"github.com/swrproxy/swrproxy/cache"
)

// never is the period of ristretto's expiry sweep in seconds, a year: nothing in it expires.
const never = 365 * 24 * 60 * 60

// countedReads is how many reads ristretto gathers before it counts them: its advice.
const countedReads = 64

// asset is what ristretto holds under a hash in place of a record: no pointer, which the collector would follow for each.
type asset struct {
	id   arrivalID // that of the record
	cost uint32    // in bytes, at most as much as it can say
}

func newAsset(c *change) asset { return asset{c.id, uint32(min(c.cost, math.MaxUint32))} }

func (s *Store) newTier() (*ristretto.Cache[uint64, asset], error) {
	return ristretto.NewCache(&ristretto.Config[uint64, asset]{
		NumCounters:            s.sizes.counters,
		MaxCost:                s.sizes.main,
		BufferItems:            countedReads,
		IgnoreInternalCost:     true,
		TtlTickerDurationInSec: never,
		// Keys are hashed already, with a seed that no client knows.
		KeyToHash: func(h uint64) (uint64, uint64) { return h, 0 },
		OnEvict:   s.tierDropped,
		OnReject:  s.tierDropped,
	})
}

// offer shows ristretto a record. One that replaces a smaller one is offered anew: ristretto makes no room when a record grows in place.
func (s *Store) offer(c *change) {
	now := newAsset(c)
	if _, ok := s.tier.GetTTL(c.hash); ok {
		if old, _ := s.tier.Get(c.hash); old.cost < now.cost {
			s.tier.Del(c.hash)
		}
	}
	for !s.tier.Set(c.hash, now, c.cost) {
		s.tier.Wait()
	}
}

// countNow has ristretto count a read of hash without waiting for others. It gathers reads where the collector clears them away: a record so large that
// few of its size come between two collections would hardly ever be counted, and be refused however often it is asked for.
func (s *Store) countNow(hash uint64) {
	s.tier.Get(hash)
	for range countedReads {
		s.tier.Get(0) // nobody's
	}
}

// tierDropped forgets what ristretto has dropped for room, or remembers that it would not have it. Called on ristretto's goroutine.
func (s *Store) tierDropped(item *ristretto.Item[asset]) {
	if s.closing.Load() {
		return
	}
	sh := s.shard(item.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.entryLocked(item.Key, item.Value.id)
	if e == nil {
		return // replaced or deleted meanwhile
	}
	if c := sh.changes[item.Key]; c != nil {
		c.out = true // the settler sees to it
		return
	}
	s.loseLocked(sh, e, &s.counts.evicted)
}

// countDropped counts r as expired if nothing could have been answered with it any more, else in other.
func (s *Store) countDropped(r *cache.Record, other *atomic.Int64) {
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
