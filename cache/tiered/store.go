package tiered

import (
	"context"
	"errors"
	"hash/maphash"
	"iter"
	"math/rand/v2"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/disk"
	"github.com/swrproxy/swrproxy/cache/memory"
)

const (
	// smallBody is the size in bytes up to which a body goes into memory on its first read from disk.
	smallBody = 16 << 10
	// maxMemoryBody is the largest body that memory holds; a smaller bound follows from the memory budget.
	maxMemoryBody = 1 << 20
	// touchOneIn is how many memory hits there are to one that the disk tier is told of.
	touchOneIn = 64
)

// Store is a memory tier in front of a disk tier. Safe for concurrent use.
type Store struct {
	mem     *memory.Store
	dsk     *disk.Store
	maxBody int64
	seed    maphash.Seed
	stripes [numStripes]stripe
	seen    seen
}

// New makes a store of two tiers, which it closes from now on.
func New(mem *memory.Store, dsk *disk.Store) *Store {
	return &Store{
		mem:     mem,
		dsk:     dsk,
		maxBody: min(maxMemoryBody, mem.Stats().Max/16),
		seed:    maphash.MakeSeed(),
	}
}

// Memory returns the tier in front, Disk the one behind.
func (s *Store) Memory() *memory.Store { return s.mem }

// Disk returns the tier behind.
func (s *Store) Disk() *disk.Store { return s.dsk }

// GetMemory returns the record of this full key if memory has it. It does not wait for I/O.
func (s *Store) GetMemory(key string) (*cache.Record, bool) {
	r, ok := s.mem.Get(key)
	if ok && rand.Uint32()%touchOneIn == 0 {
		s.dsk.Touch(key)
	}
	return r, ok
}

// Get returns the record of this full key. It waits for I/O only if memory does not have it.
func (s *Store) Get(key string) (*cache.Record, bool) {
	if r, ok := s.GetMemory(key); ok {
		return r, true
	}
	h := maphash.String(s.seed, key)
	for {
		if r, ok, valid := s.find(h, key); valid {
			return r, ok
		}
	}
}

// find looks in memory, then on disk. It is not valid if a change began meanwhile: disk may have shown a record that memory does not
// have yet, and the next read would find an older one there.
func (s *Store) find(h uint64, key string) (r *cache.Record, ok, valid bool) {
	st := s.stripe(h)
	ticket, quiet := st.look()
	if r, ok = s.mem.Get(key); ok {
		return r, true, true
	}
	r, ok = s.dsk.Get(key)
	promote := ok && quiet && s.promotes(h, r)
	valid = st.ifSame(ticket, func() {
		if promote {
			s.mem.Put(r)
		}
	})
	return r, ok, valid
}

// promotes tells whether r is worth a place in memory now.
func (s *Store) promotes(h uint64, r *cache.Record) bool {
	p, inMemory := r.Body.Bytes()
	switch size := int64(len(p)); {
	case !inMemory || size <= smallBody:
		return true
	case size > s.maxBody:
		return false
	default:
		return s.seen.again(h)
	}
}

// Put publishes r in both tiers. It is stored if one of them took it.
func (s *Store) Put(r *cache.Record) cache.PutResult {
	st := s.stripe(maphash.String(s.seed, r.Key))
	ticket := st.begin()
	result := s.dsk.Put(r)
	st.end(ticket, func(alone bool) { result = s.putMemory(r, result, alone) })
	return result
}

// putMemory carries to memory what became of r on disk. What disk has and memory can not or may not hold is taken out of memory.
func (s *Store) putMemory(r *cache.Record, onDisk cache.PutResult, alone bool) cache.PutResult {
	if onDisk == cache.PutOlder {
		return onDisk
	}
	p, _ := r.Body.Bytes()
	if onDisk == cache.PutStored && (!alone || int64(len(p)) > s.maxBody) {
		s.mem.Delete(r.Key, r.Token)
		return onDisk
	}
	switch inMemory := s.mem.Put(r); {
	case inMemory == cache.PutOlder:
		return inMemory
	case onDisk == cache.PutStored:
		return onDisk
	default:
		return inMemory
	}
}

// BodyLimit is the disk's: memory need not have everything.
func (s *Store) BodyLimit() int64 { return s.dsk.BodyLimit() }

// Delete forgets the record of this key in both tiers if its token is not above token, and tells whether there was one.
func (s *Store) Delete(key string, token uint64) bool {
	st := s.stripe(maphash.String(s.seed, key))
	ticket := st.begin()
	was := s.dsk.Delete(key, token)
	st.end(ticket, func(bool) { was = s.mem.Delete(key, token) || was })
	return was
}

// Walk calls f with each record until it returns false, those in memory first.
func (s *Store) Walk(f func(*cache.Record) bool) { s.each(s.mem.Walk, s.dsk.Walk, f) }

// Find calls f with each record that has term until it returns false, those in memory first. It takes nothing into memory.
func (s *Store) Find(term string, f func(*cache.Record) bool) {
	s.each(
		func(f func(*cache.Record) bool) { s.mem.Find(term, f) },
		func(f func(*cache.Record) bool) { s.dsk.Find(term, f) },
		f,
	)
}

// each calls f with what the tiers list, of a key in both with the record in memory.
func (s *Store) each(inMemory, onDisk iter.Seq[*cache.Record], f func(*cache.Record) bool) {
	seen := map[uint64]struct{}{}
	for r := range inMemory {
		seen[maphash.String(s.seed, r.Key)] = struct{}{}
		if !f(r) {
			return
		}
	}
	for r := range onDisk {
		if _, ok := seen[maphash.String(s.seed, r.Key)]; !ok && !f(r) {
			return
		}
	}
}

// SaveInvalidation keeps inv on disk.
func (s *Store) SaveInvalidation(inv cache.Invalidation) { s.dsk.SaveInvalidation(inv) }

// DropInvalidation forgets all invalidations with this number.
func (s *Store) DropInvalidation(seq uint64) { s.dsk.DropInvalidation(seq) }

// Invalidations returns what was saved and not dropped, in the order of its numbers.
func (s *Store) Invalidations() []cache.Invalidation { return s.dsk.Invalidations() }

// NewSpool makes a spool on the disk tier.
func (s *Store) NewSpool() (cache.Spool, error) { return s.dsk.NewSpool() }

// MaxToken is the highest token of any record on disk.
func (s *Store) MaxToken() uint64 { return s.dsk.MaxToken() }

// Sync waits until all changes made before it are on disk, or ctx ends.
func (s *Store) Sync(ctx context.Context) error {
	return errors.Join(s.mem.Sync(ctx), s.dsk.Sync(ctx))
}

// Close closes both tiers; the disk tier writes what is queued until ctx ends.
func (s *Store) Close(ctx context.Context) error {
	return errors.Join(s.mem.Close(ctx), s.dsk.Close(ctx))
}

// Tiers returns the figures of each tier, "memory" and "disk".
func (s *Store) Tiers() map[string]cache.StoreStats {
	return map[string]cache.StoreStats{"memory": s.mem.Stats(), "disk": s.dsk.Stats()}
}

// Stats sums both tiers up. Most records are in both: Records and Purged are the larger of the two tiers' figures. A record that
// one tier evicts or rejects may still be in the other; Tiers tells.
func (s *Store) Stats() cache.StoreStats {
	m, d := s.mem.Stats(), s.dsk.Stats()
	return cache.StoreStats{
		Records:  max(m.Records, d.Records),
		Bytes:    m.Bytes + d.Bytes,
		Max:      m.Max + d.Max,
		Evicted:  m.Evicted + d.Evicted,
		Rejected: m.Rejected + d.Rejected,
		Expired:  m.Expired + d.Expired,
		Purged:   max(m.Purged, d.Purged),
		Damaged:  d.Damaged,
	}
}

var (
	_ cache.Store        = (*Store)(nil)
	_ cache.MemoryGetter = (*Store)(nil)
	_ cache.Walker       = (*Store)(nil)
	_ cache.Finder       = (*Store)(nil)
	_ cache.Journal      = (*Store)(nil)
	_ cache.Syncer       = (*Store)(nil)
	_ cache.StatsSource  = (*Store)(nil)
	_ cache.BodyLimiter  = (*Store)(nil)
	_ cache.Spooler      = (*Store)(nil)
)
