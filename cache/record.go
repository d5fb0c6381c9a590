package cache

import (
	"time"

	"github.com/swrproxy/swrproxy/policy"
)

// Record is one stored response, or the index of a key whose responses vary. A changed record is a
// new record: everything in it is shared between readers. Immutable once published.
type Record struct {
	// Key is the full key that the record is stored under. Readers compare it on every hit, so that
	// a hash collision never serves another URL's body.
	Key string
	// Primary is the key before Vary: equal to Key unless this is one of several variants. Invalidation
	// by URL goes by Primary, so it reaches every variant.
	Primary string
	// Token is the number of the fill that made the record, from the sequence that invalidations share.
	// An older token never replaces a newer one.
	Token uint64
	// StoredAt is the wall-clock instant of the commit, UTC without monotonic part.
	StoredAt time.Time
	// Status is the response's status code; 0 for an index.
	Status int
	// Fields are the end-to-end header fields without Age, Content-Length and Content-Range, which each answer
	// computes. Date is always there.
	Fields Fields
	// Trailer are trailer fields, if the response had any.
	Trailer Lines
	// Body is the content; empty for an index.
	Body Body
	// Life says how long the response may be used.
	Life policy.Life
	// Tags are the surrogate keys and cache groups of the response, in the form that invalidation compares.
	Tags []string
	// Partial is set when Body is not the whole representation but one or more parts of it.
	Partial *Partial
	// Index is set when this record only says where the variants of Key are.
	Index *Index
}

// Partial says which bytes of the whole representation a record's body holds.
type Partial struct {
	// Start is the first byte's position; the body's size gives the end.
	Start int64
	// Size is the length of the whole representation in bytes, −1 if unknown.
	Size int64
}

// Index lists the variants of one primary key, the most recently stored first.
type Index struct {
	// Specs are the distinct lists of field names that stored responses vary on; an empty list stands for
	// responses without Vary.
	Specs [][]string
	// Variants are the keys of the stored variants. Its length is bounded by ObjectConfig.Variants.
	Variants []string
}

// recordOverhead is about what a record costs beside its strings and body: the struct, its slice headers, and the
// store's own entry. Measured with 100,000 records of 1 KiB.
const recordOverhead = 512

// Cost is what the record takes in memory, in bytes: key, fields, body and overhead. A body that lives elsewhere
// counts only its handle.
func (r *Record) Cost() int64 {
	n := int64(recordOverhead + len(r.Key) + len(r.Fields.block) + len(r.Trailer.block))
	if r.Primary != r.Key {
		n += int64(len(r.Primary))
	}
	if b, ok := r.Body.Bytes(); ok {
		n += int64(len(b))
	}
	for _, t := range r.Tags {
		n += int64(len(t)) + 16
	}
	return n + r.Index.cost()
}

func (x *Index) cost() int64 {
	if x == nil {
		return 0
	}
	var n int64
	for _, spec := range x.Specs {
		for _, f := range spec {
			n += int64(len(f)) + 16
		}
	}
	for _, v := range x.Variants {
		n += int64(len(v)) + 16
	}
	return n
}

// variants lists the keys of an index, none for a nil one.
func (x *Index) variants() []string {
	if x == nil {
		return nil
	}
	return x.Variants
}
