package memory

import "sync/atomic"

// recentSlots are how many entries of its index a shard keeps at hand, 4,096 in all.
const recentSlots = 1 << recentBits

const (
	recentBits = 6
	tagBits    = 64 - placeBits
)

// recent are places of settled records that were asked for last, close together: in an index of millions each look-up takes a page of its own, and a
// processor knows the addresses of about two thousand. Changes of the index need forget, under the shard's lock; the rest needs its read lock.
type recent [recentSlots]atomic.Uint64

// find returns a place that is likely the one of hash: who uses it must compare keys. 0 is none.
func (rs *recent) find(hash uint64) place {
	if w := rs[hash%recentSlots].Load(); w>>placeBits == tagOf(hash) {
		return place(w & (1<<placeBits - 1))
	}
	return 0
}

func (rs *recent) note(hash uint64, p place) {
	rs[hash%recentSlots].Store(tagOf(hash)<<placeBits | uint64(p))
}

// forget drops what is known of hash.
func (rs *recent) forget(hash uint64) { rs[hash%recentSlots].Store(0) }

func tagOf(hash uint64) uint64 { return hash >> recentBits % (1 << tagBits) }
