package memory

import (
	"slices"

	"github.com/swrproxy/swrproxy/cache"
)

const (
	// segmentSlots and segmentBytes are what fills a segment. A reader of one record keeps all of its segment, so it is no more than what a
	// connection's buffers may take; a smaller one would save the collector less. Both are just within what Go's allocator rounds up to.
	segmentSlots = 124
	segmentBytes = 120 << 10
	// sparseBelow is the part of a segment's records, of sparseOf, that must be left; else they are packed anew. Where each newcomer displaces
	// another, a segment is on average four fifths full then, and two records are copied for each newcomer.
	sparseBelow, sparseOf = 2, 3
)

// packer gathers records that are on their own, or in sparse segments, until they fill a segment. The settler's: guarded by its passMu.
type packer struct {
	waiting []parcel
	bytes   int
}

// parcel is a record that is to be packed, if it is still at its place then.
type parcel struct {
	hash uint64
	from place
	size int32
}

func (p *packer) add(hash uint64, from place, rec *cache.Record) {
	size := rec.PackedSize()
	p.waiting = append(p.waiting, parcel{hash, from, int32(size)})
	p.bytes += size
}

// take returns what fills a segment, nil if too little waits.
func (p *packer) take() []parcel {
	if len(p.waiting) < segmentSlots && p.bytes < segmentBytes {
		return nil
	}
	n, bytes := 0, 0
	for n < len(p.waiting) && n < segmentSlots {
		size := int(p.waiting[n].size)
		if bytes+size > segmentBytes && n > 0 {
			break
		}
		bytes += size
		n++
	}
	list := slices.Clone(p.waiting[:n])
	p.bytes -= bytes
	if p.waiting = p.waiting[n:]; len(p.waiting) < segmentSlots {
		p.waiting = slices.Clone(p.waiting) // a burst may have left a large array
	}
	return list
}

// pack moves what fills a segment, or adds what is left in a sparse one to what waits, and tells whether it did either. The caller holds
// passMu.
func (t *settler) pack(s *Store) bool {
	if list := t.packer.take(); len(list) > 0 {
		s.move(list)
		return true
	}
	number, ok := t.takeSparse()
	if ok {
		t.unpack(s, number)
	}
	return ok
}

// unpack adds what is left in a segment.
func (t *settler) unpack(s *Store, number uint32) {
	records := s.chunks.sparse(number)
	for i := range records {
		rec, p := &records[i], placeOf(number, i)
		if hash := s.hash(rec.Key); s.isAt(hash, p) {
			t.packer.add(hash, p, rec)
		}
	}
}

func (s *Store) isAt(hash uint64, p place) bool { return s.recordAt(hash, p) != nil }

// recordAt is the record of a hash if it is at this place.
func (s *Store) recordAt(hash uint64, p place) *cache.Record {
	sh := s.shard(hash)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	if e := sh.index.find(hash); e != nil && e.place() == p {
		return s.chunks.record(p)
	}
	return nil
}

// move copies records into one segment. Those that have gone meanwhile are left out, or leave their slot unused.
func (s *Store) move(list []parcel) {
	from := make([]*cache.Record, 0, len(list))
	present := list[:0]
	for _, m := range list {
		if rec := s.recordAt(m.hash, m.from); rec != nil {
			from, present = append(from, rec), append(present, m)
		}
	}
	to := make([]cache.Record, len(from))
	cache.Pack(from, func(i int) *cache.Record { return &to[i] })
	number, ok := s.chunks.add(to)
	if !ok {
		return // they stay where they are
	}
	for i, m := range present {
		s.forget(s.replacePlace(m, placeOf(number, i)))
	}
}

// replacePlace makes the index name the copy of a record, and returns the place that nothing needs any more: the copy's if the record has gone.
func (s *Store) replacePlace(m parcel, copied place) (unused place) {
	sh := s.shard(m.hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.index.find(m.hash)
	if e == nil || e.place() != m.from {
		return copied
	}
	e.set(copied, e.standing())
	return m.from
}
