package cache

import (
	"context"
)

// Store keeps records. Implementations pass the contract suite in cache/cachetest. Safe for concurrent use.
//
// A store may forget any record at any time; it must never return a record under another key than its own,
// an older record after a newer one of the same key was put, or a body that is not whole.
type Store interface {
	// Get returns the record of this full key. It must not keep key, whose bytes the caller may reuse, and must
	// compare the record's own Key. It does not wait for I/O in the memory tier; a disk tier may read.
	Get(key string) (*Record, bool)
	// Put publishes r: the very next Get of its key sees it or a newer one, unless the store says Refused.
	// The record belongs to the store from then on, and to all readers.
	Put(r *Record) PutResult
	// Delete forgets the record of this key if its token is not above token. It tells whether there was one.
	Delete(key string, token uint64) bool
	// Close flushes what can be flushed until ctx ends and frees what the store holds.
	Close(ctx context.Context) error
}

// reader is the part of a store that everything but the writer has.
type reader interface {
	Get(key string) (*Record, bool)
}

// MemoryGetter is implemented by stores whose Get may wait for I/O, for reads that must not.
type MemoryGetter interface {
	// GetMemory is Get as far as memory goes: it never waits for I/O. It has all of Get's promises, and what it finds Get would find. That it finds nothing
	// says nothing: the record may be in another tier.
	GetMemory(key string) (*Record, bool)
}

// BodyLimiter is implemented by stores that do not take bodies of every size. What is larger passes them by: it is neither gathered nor called stored.
type BodyLimiter interface {
	// BodyLimit is the size in bytes of the largest body that Put takes if UsualFields are enough for the rest of its record. It does not change.
	BodyLimit() int64
}

// UsualFields is how many bytes a BodyLimit leaves to a record's key, fields and overhead.
const UsualFields = 5 << 10

// Walker lists what a store holds: a purge by prefix, pattern or host has to look at all of it. New refuses a store without. The order is undefined; records
// put or deleted meanwhile may or may not be seen, all others are. Walking stops when f returns false. f may call Get, Put and Delete.
type Walker interface {
	Walk(f func(*Record) bool)
}

// PutResult says what became of a Put. A closed enum.
type PutResult uint8

const (
	// PutUnknown is the zero value and never returned.
	PutUnknown PutResult = iota
	// PutStored means that the record is visible.
	PutStored
	// PutOlder means that a record with a higher token is in place, which stays.
	PutOlder
	// PutRefused means that the store did not take the record: larger than its budget, closed, or failing.
	PutRefused
)

// String returns the result's name.
func (p PutResult) String() string {
	switch p {
	case PutStored:
		return "stored"
	case PutOlder:
		return "older"
	case PutRefused:
		return "refused"
	default:
		return "unknown"
	}
}

// StoreStats are a store's counters since it was opened, and its gauges now.
type StoreStats struct {
	// Records and Bytes are what the store holds now.
	Records, Bytes int64
	// Max is the store's budget in bytes.
	Max int64
	// Evicted counts records dropped for room; Rejected those refused admission; Expired those dropped after their last
	// use; Purged those deleted on request; Damaged those found broken.
	Evicted, Rejected, Expired, Purged, Damaged int64
}

// StatsSource is implemented by stores that count.
type StatsSource interface {
	Stats() StoreStats
}
