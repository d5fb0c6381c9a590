package fill

import "hash/maphash"

// Key names a thing that one holder at a time may fill. Space keeps equal IDs of two users apart: keys of two spaces never meet,
// whatever their IDs are. Immutable: it is a value.
type Key struct {
	Space, ID string
}

// String is the key for people: the space, a slash, the ID.
func (k Key) String() string {
	return k.Space + "/" + k.ID
}

// hash hashes the ID and mixes in a little of the space. Spaces are few and chosen by the operator: those that this does not tell apart only
// share a slot.
func (k Key) hash(seed maphash.Seed) uint64 {
	h := maphash.String(seed, k.ID)
	if n := len(k.Space); n > 0 {
		h += (uint64(n)<<16 | uint64(k.Space[0])<<8 | uint64(k.Space[n-1])) * goldenRatio
	}
	return h
}

// goldenRatio is 2⁶⁴ divided by the golden ratio, odd: it spreads small numbers over all bits.
const goldenRatio = 0x9e3779b97f4a7c15
