package memory

import (
	"hash/maphash"
	"math/bits"

	"github.com/swrproxy/swrproxy/cache"
)

// Find calls f with each record that has the term until it returns false. It holds no lock meanwhile.
func (s *Store) Find(term string, f func(*cache.Record) bool) {
	t := s.hashTerm(term)
	var list []uint64
	for i := range s.shards {
		list = s.shards[i].found(list[:0], t)
		for _, h := range list {
			r := s.holding(h)
			if r != nil && hasTerm(r, term) && !f(r) {
				return
			}
		}
	}
}

// found appends the hashes of the keys of a shard's records with a term.
func (sh *shard) found(list []uint64, term termID) []uint64 {
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	return sh.terms.appendKeys(list, term)
}

// holding returns what a hash holds now, nil if nothing.
func (s *Store) holding(h uint64) *cache.Record {
	sh := s.shard(h)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	return s.peekLocked(sh, h)
}

func hasTerm(r *cache.Record, term string) bool {
	for t := range r.Terms() {
		if t == term {
			return true
		}
	}
	return false
}

// termID is the hash of a term. Terms with the same one share a list: whoever finds a key there compares the record's own.
type termID uint32

func (s *Store) hashTerm(term string) termID { return termID(maphash.String(s.seed, term) >> 32) }

// noteTermsLocked makes a record that comes into the index findable by its terms, dropTermsLocked undoes it.
func (s *Store) noteTermsLocked(sh *shard, hash uint64, rec *cache.Record) {
	for term := range rec.Terms() {
		sh.terms.add(s.hashTerm(term), hash)
	}
}

func (s *Store) dropTermsLocked(sh *shard, hash uint64, rec *cache.Record) {
	for term := range rec.Terms() {
		sh.terms.remove(s.hashTerm(term), hash)
	}
}

// terms says which keys of one shard have a term: for each term a list of nodes, linked both ways, and a table by which the node of a term and a key is found
// without going through the list. There is no pointer in it, and no string: who finds a key compares the record's own terms. A key with one term takes 30 to 40
// bytes, 15 to 19 more if nobody shares its term. Guarded by the shard's lock.
type terms struct {
	nodes []node // from 1; nodes[0].next is the first of the free ones
	live  int    // how many are in use
	pairs table  // node numbers by term and key
	heads table  // node numbers of the first of each list, by term
}

// node is one key that has one term. It takes 20 bytes: half words need less alignment.
type node struct {
	key        [2]uint32
	term       termID
	next, prev uint32
}

func split(h uint64) [2]uint32  { return [2]uint32{uint32(h >> 32), uint32(h)} }
func joined(w [2]uint32) uint64 { return uint64(w[0])<<32 | uint64(w[1]) }

// pairHash is where the search for a term and a key begins.
func pairHash(term termID, key uint64) uint64 {
	return bits.RotateLeft64(spread(term), 32) ^ key<<shardBits
}

func (t *terms) pairAt(i uint32) uint64 {
	n := &t.nodes[i]
	return pairHash(n.term, joined(n.key))
}

func (t *terms) headAt(i uint32) uint64 { return spread(t.nodes[i].term) }

// spread makes all bits of a term's hash count for its place.
func spread(term termID) uint64 { return uint64(term) * 0x9e3779b97f4a7c15 }

func (t *terms) pair(term termID, key uint64) int {
	want := split(key)
	return t.pairs.find(pairHash(term, key), func(i uint32) bool { return t.nodes[i].key == want && t.nodes[i].term == term })
}

func (t *terms) head(term termID) int {
	return t.heads.find(spread(term), func(i uint32) bool { return t.nodes[i].term == term })
}

// add notes that a key has a term. The second time changes nothing.
func (t *terms) add(term termID, key uint64) {
	if t.pair(term, key) >= 0 {
		return
	}
	i := t.take()
	t.nodes[i] = node{key: split(key), term: term}
	if at := t.head(term); at >= 0 {
		first := t.heads.slots[at]
		t.nodes[i].next, t.nodes[first].prev = first, i
		t.heads.slots[at] = i
	} else {
		t.heads.put(spread(term), i, t.headAt)
	}
	t.pairs.put(pairHash(term, key), i, t.pairAt)
}

// remove notes that a key has a term no more.
func (t *terms) remove(term termID, key uint64) {
	at := t.pair(term, key)
	if at < 0 {
		return
	}
	i := t.pairs.slots[at]
	n := t.nodes[i]
	t.pairs.remove(at, t.pairAt)
	switch head := t.head(term); {
	case n.prev != 0:
		t.nodes[n.prev].next = n.next
	case n.next != 0:
		t.heads.slots[head] = n.next
	default:
		t.heads.remove(head, t.headAt)
	}
	if n.next != 0 {
		t.nodes[n.next].prev = n.prev
	}
	t.give(i)
}

func (t *terms) appendKeys(list []uint64, term termID) []uint64 {
	at := t.head(term)
	if at < 0 {
		return list
	}
	for i := t.heads.slots[at]; i != 0; i = t.nodes[i].next {
		list = append(list, joined(t.nodes[i].key))
	}
	return list
}

// take returns the number of a node that is not in use.
func (t *terms) take() uint32 {
	if len(t.nodes) == 0 {
		t.nodes = make([]node, 1, minNodes)
	}
	t.live++
	if i := t.nodes[0].next; i != 0 {
		t.nodes[0].next = t.nodes[i].next
		return i
	}
	if len(t.nodes) == cap(t.nodes) {
		t.nodes = append(make([]node, 0, cap(t.nodes)+cap(t.nodes)/4), t.nodes...)
	}
	t.nodes = append(t.nodes, node{})
	return uint32(len(t.nodes) - 1)
}

const minNodes = 16

// give puts a node back. When few are left in use all of it is made anew, so that what a crowd took is not kept.
func (t *terms) give(i uint32) {
	t.nodes[i] = node{next: t.nodes[0].next}
	t.nodes[0].next = i
	if t.live--; len(t.nodes) > 4*minNodes && t.live < len(t.nodes)/4 {
		t.shrink()
	}
}

func (t *terms) shrink() {
	old := t.nodes
	*t = terms{nodes: make([]node, 1, max(minNodes, t.live+t.live/4))}
	free := make([]bool, len(old))
	for i := old[0].next; i != 0; i = old[i].next {
		free[i] = true
	}
	for i := 1; i < len(old); i++ {
		if !free[i] {
			t.add(old[i].term, joined(old[i].key))
		}
	}
}

// table holds node numbers by a hash that the nodes tell, 0 where it is empty; it is probed linearly.
type table struct {
	slots []uint32
	used  int
}

// find returns where the number is that is wanted, −1 if there is none. home is its hash.
func (t *table) find(home uint64, wanted func(uint32) bool) int {
	if len(t.slots) == 0 {
		return -1
	}
	for at := t.home(home); t.slots[at] != 0; at = t.next(at) {
		if wanted(t.slots[at]) {
			return at
		}
	}
	return -1
}

func (t *table) home(hash uint64) int {
	hi, _ := bits.Mul64(hash, uint64(len(t.slots)))
	return int(hi)
}

func (t *table) next(at int) int {
	if at++; at < len(t.slots) {
		return at
	}
	return 0
}

// put adds a number that is not there. hashOf tells the hash of those that are.
func (t *table) put(hash uint64, i uint32, hashOf func(uint32) uint64) {
	if (t.used+1)*maxUsedOf > len(t.slots)*maxUsed {
		old := t.slots
		t.slots = make([]uint32, max(minEntries, len(old)+len(old)/4))
		for _, j := range old {
			if j != 0 {
				t.set(hashOf(j), j)
			}
		}
	}
	t.used++
	t.set(hash, i)
}

func (t *table) set(hash uint64, i uint32) {
	at := t.home(hash)
	for t.slots[at] != 0 {
		at = t.next(at)
	}
	t.slots[at] = i
}

// remove empties a place, and moves those behind it that were displaced by it.
func (t *table) remove(free int, hashOf func(uint32) uint64) {
	t.used--
	t.slots[free] = 0
	for at := t.next(free); t.slots[at] != 0; at = t.next(at) {
		if n := len(t.slots); (at-t.home(hashOf(t.slots[at]))+n)%n >= (at-free+n)%n {
			t.slots[free], t.slots[at] = t.slots[at], 0
			free = at
		}
	}
}

var _ cache.Finder = (*Store)(nil)
