package cache

import (
	"context"
	"iter"
	"time"
)

// Finder is implemented by stores that find records by index term (see [Record.Terms]), at a cost by what they find and not by what they
// hold. A purge by URL or tag uses it; stores without it are walked.
type Finder interface {
	// Find calls f with each record that has term until f returns false, in no order, each record once. It sees every record whose Put returned
	// before the call and that is still stored; records put, deleted or evicted meanwhile may or may not be seen. f may call Get, Put and Delete.
	// Find compares terms whole: a hash collision finds nothing wrong. It may wait for I/O.
	Find(term string, f func(*Record) bool)
}

// Journal is implemented by stores that keep records over a restart. It keeps the invalidations that a walk has not yet applied to all of
// them, so that a crash in the middle of a walk brings nothing back. Stores that implement it implement Syncer too.
type Journal interface {
	// SaveInvalidation keeps inv. It is durable when a Sync that began after it has returned without an error.
	SaveInvalidation(inv Invalidation)
	// DropInvalidation forgets all invalidations with this number. A crash may bring them back.
	DropInvalidation(seq uint64)
	// Invalidations returns what was saved and not dropped, in the order of their numbers. New calls it once, before any other method.
	Invalidations() []Invalidation
}

// Invalidation is one entry of a Journal. Several entries may have the same number.
type Invalidation struct {
	// Seq is the invalidation's number, from the sequence that records have their tokens from.
	Seq uint64
	// Soft makes records stale from At on in place of removing them.
	Soft bool
	At   time.Time
	// Scope says what the entry reaches. A store keeps it as it is.
	Scope string
}

// Syncer is implemented by stores that write behind: Sync returns when everything put and deleted before is durable.
type Syncer interface {
	Sync(ctx context.Context) error
}

// urlTerm begins the term by which a record is found by its URL. No tag begins with NUL: no field value has one.
const urlTerm = "\x00"

// Terms are what a [Finder] finds the record by: its tags, and the URL if its key says more than that, as the key of a variant does. A record
// under the plain key of its URL needs no term for that: its key is known. Of an index there are no terms but the URL.
func (r *Record) Terms() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, tag := range r.Tags {
			if !yield(tag) {
				return
			}
		}
		if prefix := urlPrefix(r.Primary); prefix != r.Key {
			yield(urlTerm + prefix)
		}
	}
}

// HasTerms tells whether a record has any.
func (r *Record) HasTerms() bool {
	for range r.Terms() {
		return true
	}
	return false
}
