package disk

import (
	"encoding/binary"
	"iter"
	"slices"

	"go.etcd.io/bbolt"
)

// The indexes hold their entries in groups: hashes are random, and what bbolt does for each key of its own would cost more than all else. A
// group's key is the highest name that it may hold, so that of an entry is the first from there on.

// pair is an entry of an index: the hash of a key and the location of its record, or the hash of a term and that of a key.
type pair struct{ hash, at uint64 }

const (
	// pairSize is the length of an encoded pair.
	pairSize = 16
	// groupSize is the length at which a group is split: seven and more fill a page.
	groupSize = 32 * pairSize
)

// lastPair is behind all others.
var lastPair = pair{^uint64(0), ^uint64(0)}

func pairAt(group []byte, i int) pair {
	return pair{be64(group[i*pairSize:]), be64(group[i*pairSize+8:])}
}

func appendPair(dst []byte, p pair) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, p.hash), p.at)
}

// naming says how the entries of an index are told apart.
type naming struct {
	mask    pair // the bits that are an entry's name, of which an index has one at most
	keySize int  // length of the key of a group: of a name without the zeros at its end
}

var (
	// byHash is for keys: the hash is the name. An entry that is nowhere says that there is none.
	byHash = &naming{mask: pair{^uint64(0), 0}, keySize: 8}
	// byBoth is for terms: both hashes are the name, but for a bit that says that there is none.
	byBoth = &naming{mask: pair{^goneBit, ^uint64(0)}, keySize: 16}
)

// goneBit is that bit.
const goneBit = uint64(1)

// less tells whether a comes before b; the compiler puts it in place.
func (n *naming) less(a, b pair) bool {
	x, y := a.hash&n.mask.hash, b.hash&n.mask.hash
	return x < y || x == y && a.at&n.mask.at < b.at&n.mask.at
}

func (n *naming) compare(a, b pair) int {
	switch {
	case n.less(a, b):
		return -1
	case n.less(b, a):
		return 1
	default:
		return 0
	}
}

// gone tells whether p says that there is no entry of its name.
func (n *naming) gone(p pair) bool {
	if n == byHash {
		return p.at == 0
	}
	return p.hash&goneBit != 0
}

// groups is a bucket of groups. Not safe for concurrent use.
type groups struct {
	*bbolt.Bucket
	*naming
}

// key is the key of the group that ends with p; bbolt makes a copy if it keeps it.
func (g groups) key(buf *[pairSize]byte, p pair) []byte {
	return appendPair(buf[:0], p)[:g.keySize]
}

func (g groups) seek(c *bbolt.Cursor, p pair) (key, group []byte) {
	var buf [pairSize]byte
	return c.Seek(g.key(&buf, p))
}

func (g groups) put(last pair, group []byte) error {
	var buf [pairSize]byte
	return g.Put(g.key(&buf, last), group)
}

// lookup finds the entry of the name that p has. What is left of a damaged group ends at its last whole pair.
func (g groups) lookup(p pair) (found pair, ok bool) {
	_, group := g.seek(g.Cursor(), p)
	lo, hi := 0, len(group)/pairSize
	for lo < hi {
		switch e := pairAt(group, (lo+hi)/2); {
		case g.less(e, p):
			lo = (lo+hi)/2 + 1
		case g.less(p, e):
			hi = (lo + hi) / 2
		default:
			return e, true
		}
	}
	return pair{}, false
}

// pairCursor reads entries in their order. Not safe for concurrent use.
type pairCursor struct {
	c     *bbolt.Cursor
	group []byte // what is left of the present group; nil at the end
}

// from begins at the first entry that is not before p.
func (g groups) from(p pair) *pairCursor {
	pc := &pairCursor{c: g.Cursor()}
	_, pc.group = g.seek(pc.c, p)
	for len(pc.group) >= pairSize && g.less(pairAt(pc.group, 0), p) {
		pc.group = pc.group[pairSize:]
	}
	return pc
}

func (p *pairCursor) next() (e pair, ok bool) {
	for len(p.group) < pairSize {
		if p.group == nil {
			return pair{}, false
		}
		_, p.group = p.c.Next()
	}
	e, p.group = pairAt(p.group, 0), p.group[pairSize:]
	return e, true
}

// source gives entries in their order.
type source func() (e pair, ok bool)

// present lists the entries of two sources, of those with one name the newer; those that say that there is none are left out.
func (n *naming) present(newer, older source) iter.Seq[pair] {
	return func(yield func(pair) bool) {
		a, moreA := newer()
		b, moreB := older()
		for moreA || moreB {
			e := b
			takeA := moreA && (!moreB || !n.less(b, a))
			takeB := moreB && (!moreA || !n.less(a, b))
			if takeB {
				b, moreB = older()
			}
			if takeA {
				e = a
				a, moreA = newer()
			}
			if !n.gone(e) && !yield(e) {
				return
			}
		}
	}
}

// change brings changes, which are in their order, into g, and tells by how many entries it has grown. Unless keepGone is set an entry that
// says that there is none is removed.
func (t *txn) change(g groups, changes []pair, keepGone bool) (grown int, err error) {
	c := g.Cursor()
	for len(changes) > 0 {
		last, group := lastPair, []byte(nil)
		if k, v := g.seek(c, g.name(changes[0])); k != nil {
			last, group = g.lastOf(k), v
		}
		n := 1
		for n < len(changes) && !g.less(last, changes[n]) {
			n++
		}
		t.buf = g.merge(t.buf[:0], group, changes[:n], keepGone)
		grown += (len(t.buf) - len(group)) / pairSize
		if err := t.putGroup(g, last, t.buf); err != nil {
			return 0, err
		}
		changes = changes[n:]
	}
	return grown, nil
}

// name is p without what is not of its name.
func (n *naming) name(p pair) pair { return pair{p.hash & n.mask.hash, p.at & n.mask.at} }

// lastOf is the name that the key of a group is made of.
func (n *naming) lastOf(key []byte) pair {
	if n == byHash || len(key) < pairSize {
		return pair{be64(key), 0}
	}
	return pairAt(key, 0)
}

// merge appends the entries of group to dst, with changes in the place of those of the same name.
func (n *naming) merge(dst, group []byte, changes []pair, keepGone bool) []byte {
	for _, ch := range changes {
		for len(group) >= pairSize && n.less(pairAt(group, 0), ch) {
			dst, group = append(dst, group[:pairSize]...), group[pairSize:]
		}
		if len(group) >= pairSize && !n.less(ch, pairAt(group, 0)) {
			group = group[pairSize:]
		}
		if keepGone || !n.gone(ch) {
			dst = appendPair(dst, ch)
		}
	}
	return append(dst, group[:len(group)/pairSize*pairSize]...)
}

// putGroup stores the entries of the group that ends with last, in several groups if they are many.
func (t *txn) putGroup(g groups, last pair, entries []byte) error {
	if len(entries) == 0 {
		var buf [pairSize]byte
		return g.Delete(g.key(&buf, last))
	}
	parts := (len(entries) + groupSize - 1) / groupSize
	for n := len(entries) / pairSize; parts > 1; parts-- {
		part := n / parts * pairSize
		n -= n / parts
		if err := g.put(g.name(pairAt(entries[:part], part/pairSize-1)), t.keep(entries[:part])); err != nil {
			return err
		}
		entries = entries[part:]
	}
	return g.put(last, t.keep(entries))
}

// takeGroups removes groups of at least n entries in all from b, from the group of a hash on, and returns them and the hash from which to go on.
func takeGroups(b *bbolt.Bucket, from uint64, n int) (list []pair, next uint64, err error) {
	var keys []uint64
	c := b.Cursor()
	k, group := seek64(c, from)
	for ; k != nil && len(list) < n; k, group = c.Next() {
		keys = append(keys, be64(k))
		for i := range len(group) / pairSize {
			list = append(list, pairAt(group, i))
		}
	}
	if k != nil {
		next = keys[len(keys)-1] + 1
	}
	for _, key := range slices.Backward(keys) { // so that what follows in a page need not move
		if err := delete64(b, key); err != nil {
			return nil, 0, err
		}
	}
	return list, next, nil
}
