package memory

import (
	"slices"
	"sync/atomic"

	"github.com/swrproxy/swrproxy/cache"
)

const (
	// segmentSlots and segmentBytes are what fills a segment. A reader of one record keeps all of its segment, so it is no more than what a
	// connection's buffers may take; a smaller one would save the collector less. Both are just within what Go's allocator rounds up to.
	segmentSlots = 104
	segmentBytes = 120 << 10
	// sparseBelow is the part of a segment's records, of sparseOf, that must be left; else they are packed anew. Where each newcomer displaces
	// another, a segment is on average four fifths full then, and two records are copied for each newcomer.
	sparseBelow, sparseOf = 2, 3
)

// held is a record at its present place: on its own or in a segment. Ristretto's values point here.
type held struct {
	rec *cache.Record           // nil in an arrival that deletes
	seg atomic.Pointer[segment] // nil while it is on its own; nowhere once neither the overlay nor ristretto holds it, or will soon
}

// nowhere is the segment of what nothing holds any more.
var nowhere = new(segment)

func (h *held) gone() bool { return h.seg.Load() == nowhere }

func (h *held) alone() bool { return h.seg.Load() == nil }

// slot is a place in a segment.
type slot struct {
	held
	record cache.Record
}

// segment is records packed together: two objects to the collector, three with tags, where each alone is four. It lasts for as long as any of its slots is
// in use. Safe for concurrent use.
type segment struct {
	slots  []slot
	live   atomic.Int32
	sparse atomic.Bool
}

// newSegment copies records.
func newSegment(list []*held) *segment {
	g := &segment{slots: make([]slot, len(list))}
	g.live.Store(int32(len(list)))
	from := make([]*cache.Record, len(list))
	for i, h := range list {
		from[i] = h.rec
	}
	cache.Pack(from, func(i int) *cache.Record {
		to := &g.slots[i]
		to.rec = &to.record
		to.seg.Store(g)
		return to.rec
	})
	return g
}

// drop counts one record less, and tells once that few are left.
func (g *segment) drop() (sparse bool) {
	left := int(g.live.Add(-1))
	return left > 0 && left*sparseOf < len(g.slots)*sparseBelow && g.sparse.CompareAndSwap(false, true)
}

// forget notes that nothing holds h any more. More than one may say so.
func (s *Store) forget(h *held) {
	g := h.seg.Swap(nowhere)
	if g != nil && g != nowhere && g.drop() {
		s.settle.pushSparse(g)
	}
}

// packer gathers records that are on their own, or in sparse segments, until they fill a segment. The settler's: guarded by its passMu.
type packer struct {
	waiting []*held
	bytes   int
}

func (p *packer) add(h *held) {
	p.waiting = append(p.waiting, h)
	p.bytes += h.rec.PackedSize()
}

// clear adds what is left in a segment.
func (p *packer) clear(g *segment) {
	for i := range g.slots {
		if h := &g.slots[i].held; !h.gone() {
			p.add(h)
		}
	}
}

// take returns what fills a segment, nil if too little waits.
func (p *packer) take() (list []*held) {
	if len(p.waiting) < segmentSlots && p.bytes < segmentBytes {
		return nil
	}
	bytes, n := 0, 0
	for ; n < len(p.waiting) && len(list) < segmentSlots; n++ {
		h := p.waiting[n]
		size := h.rec.PackedSize()
		if bytes+size > segmentBytes && len(list) > 0 {
			break
		}
		p.bytes -= size
		if !h.gone() {
			list = append(list, h)
			bytes += size
		}
	}
	clear(p.waiting[:n])
	if p.waiting = p.waiting[n:]; len(p.waiting) < segmentSlots {
		p.waiting = slices.Clone(p.waiting) // a burst may have left a large array
	}
	return list
}

// pack moves what fills a segment, or adds what is left in a sparse one to what waits, and tells whether it did either. The caller holds
// passMu.
func (t *settler) pack(s *Store) bool {
	if list := t.packer.take(); len(list) > 0 {
		g := newSegment(list)
		for i, h := range list {
			s.move(h, &g.slots[i].held)
		}
		return true
	}
	g := t.takeSparse()
	if g != nil {
		t.packer.clear(g)
	}
	return g != nil
}

// move puts a copy in the place of a record. What the settler has not been told of as gone is on trial in the overlay or in ristretto, which
// drops nothing between the settler's passes.
func (s *Store) move(old, now *held) {
	hash := s.hash(old.rec.Key)
	switch {
	case s.shard(hash).replaced(hash, old, now):
		s.forget(old)
	case old.gone():
		s.forget(now)
	default:
		s.counts.records.Add(1)
		for !s.tier.Set(hash, now, now.rec.Cost()) {
			s.tier.Wait()
		}
	}
}

// replaced puts a copy in the place of a record that is on trial, and tells whether there was one.
func (sh *shard) replaced(hash uint64, old, now *held) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	a := sh.arrived[hash]
	if a == nil || a.in != old {
		return false
	}
	a.in, a.own.rec = now, nil
	return true
}
