package memory

import (
	"slices"

	"github.com/swrproxy/swrproxy/cache"
)

const (
	// segmentSlots records, or segmentBytes, fill a segment. A reader of one record keeps all of its segment, so it is no more than what a
	// connection's buffers may take; a smaller one would save the collector less, and waste more of what Go's allocator rounds up to.
	segmentSlots = 128
	segmentBytes = 152 << 10
	// pageSize is what Go's allocator rounds up to.
	pageSize = 8 << 10
	// sparseBelow is the part of a segment's records, of sparseOf, that must be left; else they are packed anew. Where each newcomer displaces
	// another, a segment is on average four fifths full then, and two records are copied for each newcomer.
	sparseBelow, sparseOf = 2, 3
)

// packers gather records that are on their own, or in sparse segments, until they fill a segment. The settler's: guarded by its passMu.
type packers struct {
	compact, others packer // each makes segments of its own: the collector does not look into compact ones
}

// add takes what e says of rec.
func (p *packers) add(e *entry, rec *cache.Record) {
	m := parcel{e.hash, e.place(), e.id(), int32(rec.PackedSize())}
	if rec.Compact() {
		p.compact.add(m)
	} else {
		p.others.add(m)
	}
}

func (p *packers) take() []parcel {
	if list := p.compact.take(); list != nil {
		return list
	}
	return p.others.take()
}

func (p *packers) waiting() int { return len(p.compact.waiting) + len(p.others.waiting) }

// packer gathers what belongs into one segment.
type packer struct {
	waiting []parcel
	bytes   int
}

// parcel is a record that is to be packed, if it is still at its place then. Another of the same key may be there instead: places are used again.
type parcel struct {
	hash uint64
	from place
	id   arrivalID
	size int32
}

func (p *packer) add(m parcel) {
	p.waiting = append(p.waiting, m)
	p.bytes += int(m.size)
}

// take returns what fills a segment, nil if too little waits.
func (p *packer) take() []parcel {
	n, bytes := p.fitting()
	if n == 0 {
		return nil
	}
	list := slices.Clone(p.waiting[:n])
	p.bytes -= bytes
	if p.waiting = p.waiting[n:]; len(p.waiting) < segmentSlots {
		p.waiting = slices.Clone(p.waiting) // a burst may have left a large array
	}
	return list
}

// fitting is how many of those that wait go into a segment, so that little of its last page is unused; 0 if they do not fill one.
func (p *packer) fitting() (n, bytes int) {
	if len(p.waiting) < segmentSlots && p.bytes < segmentBytes {
		return 0, 0
	}
	sum, least := 0, 1.0
	for i, m := range p.waiting[:min(len(p.waiting), segmentSlots)] {
		if sum += int(m.size); sum > segmentBytes && i > 0 {
			break
		}
		pages := (sum + pageSize - 1) / pageSize
		if unused := 1 - float64(sum)/float64(pages*pageSize); unused <= least || sum < segmentBytes*3/4 {
			n, bytes, least = i+1, sum, unused
		}
	}
	return n, bytes
}

// packSome packs a segment, and more if many records wait.
func (t *settler) packSome(s *Store) (did bool) {
	for range 1 + t.packers.waiting()/(8*segmentSlots) {
		if !t.pack(s) {
			return did
		}
		did = true
	}
	return did
}

// pack moves what fills a segment, or adds what is left in a sparse one to what waits, and tells whether it did either. The caller holds
// passMu.
func (t *settler) pack(s *Store) bool {
	if list := t.packers.take(); len(list) > 0 {
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
	for _, at := range records.Places() {
		t.unpackOne(s, s.hash(records.Record(at).Key), placeOf(number, at))
	}
}

func (t *settler) unpackOne(s *Store, hash uint64, p place) {
	sh := s.shard(hash)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	if e := sh.index.find(hash); e != nil && e.place() == p {
		t.packers.add(e, s.chunks.record(p))
	}
}

// recordOf is the record of a parcel, nil if it has gone.
func (s *Store) recordOf(m parcel) *cache.Record {
	sh := s.shard(m.hash)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	if sh.parcelLocked(m) == nil {
		return nil
	}
	return s.chunks.record(m.from)
}

// parcelLocked is the entry of a parcel, nil if it has gone.
func (sh *shard) parcelLocked(m parcel) *entry {
	if e := sh.entryLocked(m.hash, m.id); e != nil && e.place() == m.from {
		return e
	}
	return nil
}

// move copies records into one segment. Those that have gone meanwhile are left out, or leave their copies unused.
func (s *Store) move(list []parcel) {
	from := make([]*cache.Record, 0, len(list))
	present := list[:0]
	for _, m := range list {
		if rec := s.recordOf(m); rec != nil {
			from, present = append(from, rec), append(present, m)
		}
	}
	if len(from) == 0 {
		return
	}
	copies := cache.Pack(from)
	number, ok := s.chunks.add(copies)
	if !ok {
		return // they stay where they are
	}
	for i, m := range present {
		s.forget(s.replacePlace(m, placeOf(number, copies.Places()[i])))
	}
}

// replacePlace makes the index name the copy of a record, and returns the place that nothing needs any more: the copy's if the record has gone.
func (s *Store) replacePlace(m parcel, copied place) (unused place) {
	sh := s.shard(m.hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.parcelLocked(m)
	if e == nil {
		return copied
	}
	sh.recent.forget(m.hash)
	e.set(e.id(), copied, e.standing())
	return m.from
}
