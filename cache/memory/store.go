package memory

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/ristretto/v2"

	"github.com/swrproxy/swrproxy/cache"
)

// DefaultMax is the budget of a store whose options name none, in bytes.
const DefaultMax = 64 << 20

// ErrBudget is returned by New for a budget that cannot hold a record.
var ErrBudget = errors.New("memory: budget too small")

// minMax is the smallest budget that New accepts: a few dozen records without bodies.
const minMax = 16 << 10

// Options are what a [Store] is made of.
type Options struct {
	// Max is the budget in bytes. 0 means DefaultMax; less than 16 KiB is an error.
	Max int64
}

// Store keeps records in memory. Safe for concurrent use.
type Store struct {
	seed   maphash.Seed
	chunks chunks
	tier   *ristretto.Cache[uint64, asset]
	sizes  sizes
	shards [numShards]shard
	terms  termLists
	counts counters
	tight  atomic.Bool // records compete for room, or soon will

	closing atomic.Bool
	settle  settler
	closed  sync.Once
}

// counters are a store's events since it was made, and what it holds now.
type counters struct {
	evicted, rejected, expired, purged atomic.Int64

	records   atomic.Int64
	bytes     atomic.Int64
	unsettled atomic.Int64 // bytes of those that are moving or on trial

	arrivals atomic.Uint32 // numbers given to arrivals
}

// New makes a store and starts its goroutines, which Close ends.
func New(o Options) (*Store, error) {
	if o.Max == 0 {
		o.Max = DefaultMax
	}
	if o.Max < minMax {
		return nil, fmt.Errorf("%w: %d bytes, need %d", ErrBudget, o.Max, minMax)
	}
	s := &Store{seed: maphash.MakeSeed(), sizes: newSizes(o.Max)}
	for i := range s.shards {
		s.shards[i].init()
	}
	tier, err := s.newTier()
	if err != nil {
		return nil, fmt.Errorf("memory: make tier: %w", err)
	}
	s.tier = tier
	s.settle.start(s)
	return s, nil
}

// Close ends the store's goroutines and drops its records. It waits for a running pass of the settler, which takes no longer than
// some milliseconds, whatever ctx says. The second call does nothing.
func (s *Store) Close(context.Context) error {
	s.closed.Do(func() {
		s.closing.Store(true)
		for i := range s.shards {
			s.shards[i].close()
		}
		s.terms.clear()
		s.settle.stop()
		s.tier.Close()
	})
	return nil
}

// Sync waits until every change made before it has been carried over, so that Stats and the budget are settled.
func (s *Store) Sync(context.Context) error {
	s.settle.pass(s)
	return nil
}

func (s *Store) hash(key string) uint64 { return maphash.String(s.seed, key) }

func (s *Store) shard(h uint64) *shard { return &s.shards[h>>(64-shardBits)] }

var (
	_ cache.Store       = (*Store)(nil)
	_ cache.Walker      = (*Store)(nil)
	_ cache.StatsSource = (*Store)(nil)
	_ cache.BodyLimiter = (*Store)(nil)
)
