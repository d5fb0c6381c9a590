// Package forgotten remembers the tokens of records that a store has let go.
//
// # Usage
//
// A store adds a key's hash and token when it drops the record, and asks Floor before it takes one: a straggler with a lower
// token would bring content back that was overtaken already.
//
// # Concurrency
//
// Nothing in it is safe for concurrent use; stores keep it under the lock that orders their changes.
//
// # Limits
//
// Only the latest keys are remembered. Two keys with one hash share a floor.
package forgotten

// Tokens holds the highest token of each of the keys forgotten last. Not safe for concurrent use.
type Tokens struct {
	floors map[uint64]uint64
	ring   []uint64 // hashes in order of arrival
	next   int
}

// New makes an empty set of at most size keys.
func New(size int) Tokens {
	return Tokens{floors: make(map[uint64]uint64), ring: make([]uint64, size)}
}

// Add remembers that the record of this key hash and token was dropped, in place of the oldest if the set is full.
func (t *Tokens) Add(hash, token uint64) {
	if have, ok := t.floors[hash]; ok {
		t.floors[hash] = max(have, token)
		return
	}
	if len(t.floors) == len(t.ring) {
		delete(t.floors, t.ring[t.next])
	}
	t.ring[t.next] = hash
	t.next = (t.next + 1) % len(t.ring)
	t.floors[hash] = token
}

// Floor is the lowest token that may still come in under hash; 0 if any may.
func (t *Tokens) Floor(hash uint64) uint64 { return t.floors[hash] }
