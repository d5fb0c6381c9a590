package disk

import (
	"slices"

	"github.com/swrproxy/swrproxy/cache"
)

// opOverhead is what a queued change costs beside its record, in bytes.
const opOverhead = 256

// op is a change that waits to be written. Guarded by the store's mutex until the writer has taken it; rec and body are then
// read only.
type op struct {
	hash  uint64
	rec   *cache.Record // nil: the key is deleted
	note  *note         // not nil: the journal changes, and no record
	token uint64        // of rec, or of what was deleted
	terms []uint64      // hashes of rec's terms
	cost  int64         // of the queue's budget
	body  *body         // rec's body if it is the store's own
	kept  *Spool        // what body needs kept on disk until op is done
	fresh bool          // the database has no record of this hash
	taken bool          // the writer works on it
}

// queue holds the changes that the database does not show yet: the latest of each key, and all in order. Not safe for concurrent use.
type queue struct {
	latest map[uint64]*op
	order  []*op
	bytes  int64          // cost of all, those taken included
	terms  map[uint64]int // how many changes have a term, those taken included
}

func (q *queue) init() { q.latest, q.terms = make(map[uint64]*op), make(map[uint64]int) }

func (q *queue) push(o *op) {
	if o.note == nil {
		q.latest[o.hash] = o
	}
	for _, term := range o.terms {
		q.terms[term]++
	}
	q.order = append(q.order, o)
	q.bytes += o.cost
}

// take removes the oldest changes, up to about limit bytes and max in number, at least one.
func (q *queue) take(limit int64, max int) []*op {
	n, size := 0, int64(0)
	for n < len(q.order) && n < max && (n == 0 || size+q.order[n].cost <= limit) {
		size += q.order[n].cost
		q.order[n].taken = true
		n++
	}
	list := q.order[:n:n]
	if q.order = q.order[n:]; len(q.order) == 0 {
		q.order = nil
	}
	return list
}

// putBack undoes take.
func (q *queue) putBack(list []*op) {
	for _, o := range list {
		o.taken = false
	}
	q.order = append(list[:len(list):len(list)], q.order...)
}

// pushFirst has a change of the journal written before all others.
func (q *queue) pushFirst(o *op) {
	q.bytes += o.cost
	q.putBack([]*op{o})
}

// leave ends o: the database shows it, or something newer, or it was given up.
func (q *queue) leave(o *op) {
	q.bytes -= o.cost
	q.forgetTerms(o)
	if q.latest[o.hash] == o {
		delete(q.latest, o.hash)
	}
}

// oldestPut returns the put that waits longest, nil if none does.
func (q *queue) oldestPut() *op {
	for _, o := range q.order {
		if o.rec != nil {
			return o
		}
	}
	return nil
}

// forgetTerms is for a change that is not, or not any more, a put.
func (q *queue) forgetTerms(o *op) {
	for _, term := range o.terms {
		if q.terms[term]--; q.terms[term] == 0 {
			delete(q.terms, term)
		}
	}
	o.terms = nil
}

// having returns the queued records that may have a term, by the hash of their key.
func (q *queue) having(term uint64) map[uint64]*cache.Record {
	if q.terms[term] == 0 {
		return nil
	}
	list := make(map[uint64]*cache.Record)
	for h, o := range q.latest {
		if slices.Contains(o.terms, term) {
			list[h] = o.rec
		}
	}
	return list
}
