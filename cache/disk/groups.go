package disk

import (
	"cmp"
	"encoding/binary"
	"slices"

	"go.etcd.io/bbolt"
)

// The index, recent and records alike, holds its entries in groups: hashes are random, and what bbolt does for each key of its own would
// cost more than all else. A group's key is the highest hash that it may hold, so that of a hash is the first from there on.

// pair is an entry of the index: the hash of a key, and where its record is.
type pair struct {
	hash uint64
	at   location
}

const (
	// pairSize is the length of an encoded pair.
	pairSize = 16
	// groupSize is the length at which a group is split: eight and more fill a page.
	groupSize = 32 * pairSize
	// lastGroup is the key of the group at the end.
	lastGroup = ^uint64(0)
)

func pairAt(group []byte, i int) pair {
	return pair{be64(group[i*pairSize:]), location(be64(group[i*pairSize+8:]))}
}

func appendPair(dst []byte, p pair) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, p.hash), uint64(p.at))
}

// lookup finds the entry of h. What is left of a damaged group ends at its last whole pair.
func lookup(b *bbolt.Bucket, h uint64) (l location, ok bool) {
	_, group := seek64(b.Cursor(), h)
	lo, hi := 0, len(group)/pairSize
	for lo < hi {
		switch p := pairAt(group, (lo+hi)/2); {
		case p.hash == h:
			return p.at, true
		case p.hash < h:
			lo = (lo+hi)/2 + 1
		default:
			hi = (lo + hi) / 2
		}
	}
	return 0, false
}

// pairCursor reads the entries of a bucket in the order of their hashes. Not safe for concurrent use.
type pairCursor struct {
	c     *bbolt.Cursor
	group []byte // what is left of the present group; nil at the end
}

// seekPairs begins at the first entry from a hash on.
func seekPairs(b *bbolt.Bucket, from uint64) *pairCursor {
	p := &pairCursor{c: b.Cursor()}
	_, p.group = seek64(p.c, from)
	for len(p.group) >= pairSize && be64(p.group) < from {
		p.group = p.group[pairSize:]
	}
	return p
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

// change brings changes, which are in the order of their hashes, into b, and tells by how many entries it has grown. Unless keepGone is
// set an entry that is nowhere is removed.
func (t *txn) change(b *bbolt.Bucket, changes []pair, keepGone bool) (grown int, err error) {
	c := b.Cursor()
	for len(changes) > 0 {
		last, group := lastGroup, []byte(nil)
		if k, v := seek64(c, changes[0].hash); k != nil {
			last, group = be64(k), v
		}
		n := 1
		for n < len(changes) && changes[n].hash <= last {
			n++
		}
		t.buf = mergeGroup(t.buf[:0], group, changes[:n], keepGone)
		grown += (len(t.buf) - len(group)) / pairSize
		if err := t.putGroup(b, last, t.buf); err != nil {
			return 0, err
		}
		changes = changes[n:]
	}
	return grown, nil
}

// mergeGroup appends the entries of group to dst, with changes in the place of those of the same hash.
func mergeGroup(dst, group []byte, changes []pair, keepGone bool) []byte {
	for _, ch := range changes {
		for len(group) >= pairSize && be64(group) < ch.hash {
			dst, group = append(dst, group[:pairSize]...), group[pairSize:]
		}
		if len(group) >= pairSize && be64(group) == ch.hash {
			group = group[pairSize:]
		}
		if ch.at != 0 || keepGone {
			dst = appendPair(dst, ch)
		}
	}
	return append(dst, group[:len(group)/pairSize*pairSize]...)
}

// putGroup stores the entries of the group of key last, in several groups if they are many.
func (t *txn) putGroup(b *bbolt.Bucket, last uint64, entries []byte) error {
	if len(entries) == 0 {
		return delete64(b, last)
	}
	parts := (len(entries) + groupSize - 1) / groupSize
	for n := len(entries) / pairSize; parts > 1; parts-- {
		part := n / parts * pairSize
		n -= n / parts
		if err := put64(b, be64(entries[part-pairSize:]), t.keep(entries[:part])); err != nil {
			return err
		}
		entries = entries[part:]
	}
	return put64(b, last, t.keep(entries))
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

func sortPairs(list []pair) {
	slices.SortFunc(list, func(a, b pair) int { return cmp.Compare(a.hash, b.hash) })
}
