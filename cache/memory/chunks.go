package memory

import (
	"sync"
	"sync/atomic"

	"github.com/swrproxy/swrproxy/cache"
)

// place is where a record is: the number of a chunk and a place in it. 0 is none.
type place uint64

const (
	atBits    = 16
	pageBits  = 10
	chunkBits = 22
	placeBits = chunkBits + atBits
	maxChunks = 1 << chunkBits
)

func placeOf(chunk uint32, at uint16) place { return place(chunk)<<atBits | place(at) }

func (p place) chunk() uint32 { return uint32(p >> atBits) }

func (p place) at() uint16 { return uint16(p) }

// chunks are all records that a store has, by their place. A place is only valid for who holds the lock of the shard whose index names it, and
// what it says is valid for as long as anybody likes. Safe for concurrent use.
type chunks struct {
	pages [maxChunks >> pageBits]atomic.Pointer[chunkPage]

	mu   sync.Mutex // guards following, and the records of chunks that no index names
	next uint32
	free []uint32
}

type chunkPage [1 << pageBits]chunk

// chunk is one record by itself, or a segment: records packed together.
type chunk struct {
	records cache.Packed
	live    atomic.Int32 // records that an index names, or will
	sparse  atomic.Bool
}

func (cs *chunks) at(n uint32) *chunk { return &cs.pages[n>>pageBits].Load()[n&(1<<pageBits-1)] }

// record is what is at a place. The caller holds the lock of its key's shard.
func (cs *chunks) record(p place) *cache.Record { return cs.at(p.chunk()).records.Record(p.at()) }

// add makes a chunk of records, all of which count as live. False means that there is no number left.
func (cs *chunks) add(records cache.Packed) (number uint32, ok bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if number, ok = cs.numberLocked(); !ok {
		return 0, false
	}
	c := cs.at(number)
	c.records = records
	c.live.Store(int32(len(records.Places())))
	return number, true
}

func (cs *chunks) numberLocked() (number uint32, ok bool) {
	if last := len(cs.free) - 1; last >= 0 {
		number, cs.free = cs.free[last], cs.free[:last]
		return number, true
	}
	if cs.next+1 == maxChunks {
		return 0, false
	}
	cs.next++ // there is no chunk 0, as there is no place 0
	if page := &cs.pages[cs.next>>pageBits]; page.Load() == nil {
		page.Store(new(chunkPage))
	}
	return cs.next, true
}

// drop counts one record of a chunk less, and tells once that few are left in it. A chunk with none is gone.
func (cs *chunks) drop(p place) (sparse bool) {
	c := cs.at(p.chunk())
	all := len(c.records.Places()) // before the count falls: at 0 they go
	left := int(c.live.Add(-1))
	if left > 0 {
		return left*sparseOf < all*sparseBelow && c.sparse.CompareAndSwap(false, true)
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.records = cache.Packed{}
	c.sparse.Store(false)
	cs.free = append(cs.free, p.chunk())
	return false
}

// sparse returns the records of a chunk of which drop said that few are left in it, none if it is gone meanwhile.
func (cs *chunks) sparse(number uint32) cache.Packed {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c := cs.at(number); c.sparse.Load() {
		return c.records
	}
	return cache.Packed{}
}
