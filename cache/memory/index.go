package memory

import (
	"math/bits"
	"sync/atomic"
)

// index says where the records of one shard are: a flat table without a pointer in it, so that a look-up touches one line of it and the collector
// none. Changes need the shard's lock, reads its read lock.
type index struct {
	entries []entry // probed linearly
	used    int
}

// entry is one key's record.
type entry struct {
	hash uint64
	// what is the number of the arrival that brought it, its place and its standing; 0 where the entry is empty. Readers change the standing under the
	// read lock.
	what atomic.Uint64
}

// arrivalID is the number of an arrival. Numbers come again after sixteen million, when nobody remembers them for the same hash. 0 is none.
type arrivalID uint32

// standing is how firmly a record is held. A closed enum.
type standing uint32

const (
	// settled: ristretto holds its hash, and says when it goes.
	settled standing = iota
	// moving: it is in the settler's queue or under ristretto's eyes.
	moving
	// onTrial: ristretto did not want it, and nobody has asked for it since.
	onTrial
	// wanted is onTrial after somebody did.
	wanted
)

const (
	standingBits = 2
	standingMask = 1<<standingBits - 1
	idBits       = 64 - placeBits - standingBits

	// An index grows by a quarter when more than four fifths of it are used: a look-up then sees three entries on average, which is one line.
	maxUsed, maxUsedOf = 4, 5
	minEntries         = 16
)

func (e *entry) place() place { return place(e.what.Load() >> standingBits & (1<<placeBits - 1)) }

func (e *entry) standing() standing { return standing(e.what.Load() & standingMask) }

func (e *entry) id() arrivalID { return arrivalID(e.what.Load() >> (placeBits + standingBits)) }

func (e *entry) set(id arrivalID, p place, st standing) {
	e.what.Store(uint64(id)<<(placeBits+standingBits) | uint64(p)<<standingBits | uint64(st))
}

// ask notes that somebody asked for a record on trial, and returns how it stood.
func (e *entry) ask() standing {
	w := e.what.Load()
	st := standing(w & standingMask)
	if st == onTrial {
		e.what.CompareAndSwap(w, w&^standingMask|uint64(wanted))
	}
	return st
}

// find returns the entry of hash, nil if there is none. It is valid until the next change.
func (x *index) find(hash uint64) *entry {
	if i := x.at(hash); i >= 0 {
		return &x.entries[i]
	}
	return nil
}

// at is where the entry of hash is, −1 if there is none.
func (x *index) at(hash uint64) int {
	if len(x.entries) == 0 {
		return -1
	}
	for i := x.home(hash); ; i = x.next(i) {
		switch e := &x.entries[i]; {
		case e.what.Load() == 0:
			return -1
		case e.hash == hash:
			return i
		}
	}
}

// home is where the search for hash begins. The shard has taken the high bits.
func (x *index) home(hash uint64) int {
	hi, _ := bits.Mul64(hash<<shardBits, uint64(len(x.entries)))
	return int(hi)
}

// put sets the entry of hash.
func (x *index) put(hash uint64, id arrivalID, p place, st standing) {
	if e := x.find(hash); e != nil {
		e.set(id, p, st)
		return
	}
	if (x.used+1)*maxUsedOf > len(x.entries)*maxUsed {
		x.grow()
	}
	x.take(hash).set(id, p, st)
}

// take fills an empty entry but for what it says.
func (x *index) take(hash uint64) *entry {
	i := x.home(hash)
	for x.entries[i].what.Load() != 0 {
		i = x.next(i)
	}
	x.used++
	x.entries[i].hash = hash
	return &x.entries[i]
}

func (x *index) next(i int) int {
	if i++; i < len(x.entries) {
		return i
	}
	return 0
}

func (x *index) grow() {
	old := x.entries
	x.entries, x.used = make([]entry, max(minEntries, len(old)+len(old)/4)), 0
	for i := range old {
		if e := &old[i]; e.what.Load() != 0 {
			x.take(e.hash).what.Store(e.what.Load())
		}
	}
}

// remove empties the entry of hash, and moves those behind it that were displaced by it.
func (x *index) remove(hash uint64) {
	free := x.at(hash)
	if free < 0 {
		return
	}
	x.used--
	x.entries[free].what.Store(0)
	for i := x.next(free); x.entries[i].what.Load() != 0; i = x.next(i) {
		m := &x.entries[i]
		if x.reaches(x.home(m.hash), free, i) {
			to := &x.entries[free]
			to.hash = m.hash
			to.what.Store(m.what.Load())
			m.what.Store(0)
			free = i
		}
	}
}

// reaches tells whether free is between home and at, going round: whether a search from home to at comes by it.
func (x *index) reaches(home, free, at int) bool {
	n := len(x.entries)
	return (at-home+n)%n >= (at-free+n)%n
}
