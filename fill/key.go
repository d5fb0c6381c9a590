package fill

import (
	"hash/maphash"
	"math/bits"
)

// Key names a thing that one holder at a time may fill. Space keeps equal IDs of two users apart: keys of two spaces never meet,
// whatever their IDs are. Immutable: it is a value.
type Key struct {
	Space, ID string
}

// String is the key for people: the space, a slash, the ID.
func (k Key) String() string {
	return k.Space + "/" + k.ID
}

// hash mixes both parts; the parts are hashed apart, so that moving a byte from one to the other is another key.
func (k Key) hash(seed maphash.Seed) uint64 {
	return maphash.String(seed, k.ID) ^ bits.RotateLeft64(maphash.String(seed, k.Space), 29)
}
