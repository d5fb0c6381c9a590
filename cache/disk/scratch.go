package disk

const (
	// scratchBlock is the size of a block: dozens of values and chunks.
	scratchBlock = 64 << 10
	// scratchBlocks is how many blocks are kept for the next transaction.
	scratchBlocks = 64
)

// scratch is memory that transactions use one after another. Not safe for concurrent use; the writer's own.
type scratch struct {
	buf      []byte              // a value while it is made
	moved    map[uint64]location // where records are now; not in the index yet
	listings []listing           // what has changed of the terms
	blocks   [][]byte            // what bbolt keeps until the commit: full ones, the one in use, and free ones
	used     int                 // how many of blocks are full
}

// reset makes all of it free again, after a transaction has ended.
func (s *scratch) reset() {
	if s.moved == nil || len(s.moved) > batchOps {
		s.moved = make(map[uint64]location)
	}
	clear(s.moved)
	s.listings = s.listings[:0]
	s.blocks = s.blocks[:min(len(s.blocks), scratchBlocks)]
	for i := range s.blocks {
		s.blocks[i] = s.blocks[i][:0]
	}
	s.used = 0
}

// grab returns n bytes that stay until the transaction ends.
func (s *scratch) grab(n int) []byte {
	if n > scratchBlock/2 {
		return make([]byte, n)
	}
	if s.used < len(s.blocks) && n > cap(s.blocks[s.used])-len(s.blocks[s.used]) {
		s.used++
	}
	if s.used == len(s.blocks) {
		s.blocks = append(s.blocks, make([]byte, 0, scratchBlock))
	}
	b := s.blocks[s.used]
	start := len(b)
	s.blocks[s.used] = b[:start+n]
	return b[start : start+n : start+n]
}

// keep copies parts, one after another, to where they stay until the transaction ends.
func (s *scratch) keep(parts ...[]byte) []byte {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	dst := s.grab(n)[:0]
	for _, p := range parts {
		dst = append(dst, p...)
	}
	return dst
}
