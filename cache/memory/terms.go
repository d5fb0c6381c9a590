package memory

import (
	"hash/maphash"
	"math/bits"
	"slices"
	"sync"

	"github.com/swrproxy/swrproxy/cache"
)

// termLists are the terms of all records, those of one term in one list. Changes are made under the lock of the key's shard, so that a list agrees with the
// index; in the order of locks a list comes behind a shard.
type termLists [numShards]termList

type termList struct {
	mu    sync.RWMutex // guards following
	terms terms
}

func (ls *termLists) of(term termID) *termList { return &ls[term%numShards] }

func (l *termList) add(p pair) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.terms.add(p)
}

func (l *termList) remove(p pair) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.terms.remove(p)
}

func (l *termList) read(from pair, list []uint64) (found []uint64, next pair, more bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.terms.read(from, list)
}

// clear forgets all terms. The shards are closed.
func (ls *termLists) clear() {
	for i := range ls {
		l := &ls[i]
		l.mu.Lock()
		l.terms = terms{}
		l.mu.Unlock()
	}
}

// change makes the key of hash have the terms of now in place of those of was. Both are sorted, without doubles.
func (ls *termLists) change(hash uint64, was, now []termID) {
	for len(was) > 0 || len(now) > 0 {
		switch {
		case len(was) == 0 || len(now) > 0 && now[0] < was[0]:
			ls.of(now[0]).add(newPair(now[0], hash))
			now = now[1:]
		case len(now) == 0 || was[0] < now[0]:
			ls.of(was[0]).remove(newPair(was[0], hash))
			was = was[1:]
		default:
			was, now = was[1:], now[1:]
		}
	}
}

// terms says which keys have which terms: a set of pairs of hashes. It holds no strings: a reader compares the record's own terms. The pairs
// are in leaves, each of which has those from its bound to the next one's, in no order. So a change costs a search among the bounds and one leaf, however
// much is held and however many keys share a term; and a reader that goes from leaf to leaf needs to remember no more than the pair that is next. It
// grows and shrinks by a leaf at a time, and takes about 18 bytes for a pair. Guarded by the list's lock.
type terms struct {
	bounds []pair   // sorted; the first is the least that there is
	leaves [][]pair // as many
}

// pair is a key that has a term. It takes 12 bytes: half words need less alignment.
type pair struct {
	term termID
	key  [2]uint32 // the two halves of its hash
}

// termID is the hash of a term.
type termID uint32

const (
	// leafLen is how many pairs a leaf has at most. More make a removal slower, which looks at all of them, and fewer the search.
	leafLen = 64
	// joinLen is what two neighbours have together at most when they are made one: well below leafLen, so that this is not undone at once.
	joinLen = leafLen * 3 / 4
)

func newPair(term termID, hash uint64) pair {
	return pair{term, [2]uint32{uint32(hash >> 32), uint32(hash)}}
}

func (p pair) hash() uint64 { return uint64(p.key[0])<<32 | uint64(p.key[1]) }

// before is 1 if p is before q in the order of bounds, else 0. A branch on it would be mispredicted every other time, which costs more than the rest of a
// search does.
func (p pair) before(q pair) int {
	_, less := bits.Sub64(uint64(p.key[1]), uint64(q.key[1]), 0)
	_, less = bits.Sub64(uint64(p.term)<<32|uint64(p.key[0]), uint64(q.term)<<32|uint64(q.key[0]), less)
	return int(less)
}

// leafOf is the number of the leaf to which a pair belongs. There is one at least.
func (t *terms) leafOf(p pair) int {
	at := 0
	for n := len(t.bounds); n > 1; {
		half := n / 2
		at += half & (p.before(t.bounds[at+half]) - 1) // unless it is before
		n -= half
	}
	return at
}

// add adds a pair that is not there.
func (t *terms) add(p pair) {
	if len(t.leaves) == 0 {
		t.bounds, t.leaves = []pair{{}}, [][]pair{nil}
	}
	i := t.leafOf(p)
	if len(t.leaves[i]) == leafLen {
		t.split(i)
		i = t.leafOf(p)
	}
	t.leaves[i] = append(t.leaves[i], p)
}

// remove removes a pair, if it is there.
func (t *terms) remove(p pair) {
	if len(t.leaves) == 0 {
		return
	}
	i := t.leafOf(p)
	leaf := t.leaves[i]
	at := indexOf(leaf, p)
	if at < 0 {
		return
	}
	last := len(leaf) - 1
	leaf[at] = leaf[last]
	t.leaves[i] = leaf[:last]
	switch {
	case len(t.leaves) == 1 && last == 0:
		*t = terms{}
	case i > 0 && last+len(t.leaves[i-1]) <= joinLen:
		t.join(i - 1)
	case i+1 < len(t.leaves) && last+len(t.leaves[i+1]) <= joinLen:
		t.join(i)
	}
}

// indexOf is where a pair is in a leaf, −1 if it is not there. It looks at the half of the hash that hardly any two pairs of a leaf share.
func indexOf(leaf []pair, p pair) int {
	for i := range leaf {
		if leaf[i].key[1] == p.key[1] && leaf[i] == p {
			return i
		}
	}
	return -1
}

// split moves a part of a full leaf into a new one behind it.
func (t *terms) split(i int) {
	leaf := t.leaves[i]
	bound := middleOf(leaf)
	high := make([]pair, leafLen)
	low, n := leaf, 0 // n are low
	for j, p := range leaf {
		low[n], high[j-n] = p, p
		n += p.before(bound)
	}
	t.leaves[i] = low[:n]
	t.bounds = slices.Insert(t.bounds, i+1, bound)
	t.leaves = slices.Insert(t.leaves, i+1, high[:len(leaf)-n])
}

// middleOf is a pair of a leaf that a quarter of them at least is before, and a quarter not. Half of the pairs are such, for none is there twice.
func middleOf(leaf []pair) pair {
	for _, p := range leaf {
		before := 0
		for _, q := range leaf {
			before += q.before(p)
		}
		if before >= len(leaf)/4 && before <= len(leaf)*3/4 {
			return p
		}
	}
	panic("memory: a pair is in the index of terms twice")
}

// join moves what the next leaf has into a leaf, and removes that.
func (t *terms) join(i int) {
	t.leaves[i] = append(t.leaves[i], t.leaves[i+1]...)
	t.bounds = slices.Delete(t.bounds, i+1, i+2)
	t.leaves = slices.Delete(t.leaves, i+1, i+2)
	if len(t.leaves) < cap(t.leaves)/4 {
		t.bounds, t.leaves = slices.Clone(t.bounds), slices.Clone(t.leaves)
	}
}

// read appends the hashes of keys that have the term of from, from there on, leaf by leaf while there is room for all of one. It returns the pair to go on
// from, if there may be more. Whatever changes until then, what stays is read once.
func (t *terms) read(from pair, list []uint64) (found []uint64, next pair, more bool) {
	if len(t.leaves) == 0 {
		return list, pair{}, false
	}
	for i := t.leafOf(from); ; i++ {
		for _, p := range t.leaves[i] {
			if p.term == from.term && p.before(from) == 0 {
				list = append(list, p.hash())
			}
		}
		if i+1 == len(t.bounds) || t.bounds[i+1].term > from.term {
			return list, pair{}, false
		}
		if cap(list)-len(list) < leafLen {
			return list, t.bounds[i+1], true
		}
	}
}

func (s *Store) termID(term string) termID {
	return termID(maphash.String(s.seed, term) >> 32)
}

// usualTerms is how many terms a record may have whose hashes need no allocation.
const usualTerms = 32

// appendTermIDs appends the hashes of a record's terms, sorted and without doubles; none for nil.
func (s *Store) appendTermIDs(ids []termID, r *cache.Record) []termID {
	if r == nil {
		return ids
	}
	for term := range r.Terms() {
		ids = append(ids, s.termID(term))
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// changeTermsLocked makes the record that hash comes to hold found by its terms, and what it held no more. Either is nil for nothing.
func (s *Store) changeTermsLocked(hash uint64, was, now *cache.Record) {
	if was != nil && now != nil && was.Key == now.Key && was.Primary == now.Primary && slices.Equal(was.Tags, now.Tags) {
		return
	}
	var before, after [usualTerms]termID
	s.terms.change(hash, s.appendTermIDs(before[:0], was), s.appendTermIDs(after[:0], now))
}
