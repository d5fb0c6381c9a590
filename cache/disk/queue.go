package disk

import (
	"github.com/swrproxy/swrproxy/cache"
)

// opOverhead is what a queued change costs beside its record, in bytes.
const opOverhead = 256

// op is a change that waits to be written. Guarded by the store's mutex until the writer has taken it; rec and body are then
// read only.
type op struct {
	hash  uint64
	rec   *cache.Record // nil: the key is deleted
	token uint64        // of rec, or of what was deleted
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
	bytes  int64 // cost of all, those taken included
}

func (q *queue) init() { q.latest = make(map[uint64]*op) }

func (q *queue) push(o *op) {
	q.latest[o.hash] = o
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

// leave ends o: the database shows it, or something newer, or it was given up.
func (q *queue) leave(o *op) {
	q.bytes -= o.cost
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
