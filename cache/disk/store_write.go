package disk

import (
	"github.com/swrproxy/swrproxy/cache"

	"go.etcd.io/bbolt"
)

// Put publishes r: the next Get sees it, and the writer carries it to disk. It never waits for a write, unless r has the token
// of the record that it replaces: that is a sweep that changes what is stored, and waits for the writer rather than have the queue overflow. While the disk is failing, and
// for a record that is larger than three quarters of the budget, the answer is PutRefused; the older record of the key, which has been
// overtaken, is forgotten then. A body that came from this store, as with a freshened record, is not written again.
func (s *Store) Put(r *cache.Record) cache.PutResult {
	o := &op{hash: s.hash(r.Key), rec: r, token: r.Token, terms: termsOf(s.seed, r), cost: r.Cost() + opOverhead}
	if b, ok := r.Body.Source().(*body); ok && b.s == s {
		o.body = b
	}
	for {
		have, seen := s.peek(o.hash, r.Key)
		result, wait := s.enqueue(o, have, seen)
		if result != cache.PutUnknown {
			return result
		}
		<-wait
	}
}

// found is what a look at the database told about a key.
type found struct {
	ok    bool
	none  bool // nor has it a record of another key with this hash
	token uint64
}

// peek looks for the record of key in the database. seen is what enqueue compares to tell that it is still right.
func (s *Store) peek(h uint64, key string) (f found, seen uint64) {
	s.mu.RLock()
	seen = s.removals.Load()
	_, queued := s.queue.latest[h]
	s.mu.RUnlock()
	if queued {
		return found{}, seen // the queue knows better
	}
	if s.absent.has(h) {
		return found{none: true}, seen
	}
	_ = s.view(func(tx *bbolt.Tx) error { // what can not be read is not there
		v, err := find(tx, h)
		if f.none = v == nil && err == nil; err != nil || f.none {
			return err
		}
		r, head, err := decodeValue(v)
		if err == nil && r.Key == key && s.countsToken(head.token) {
			f = found{ok: true, token: head.token}
		}
		return nil
	})
	if f.none {
		s.noteAbsent(h, seen)
	}
	return f, seen
}

// countsToken tells whether a record of this token is above the floor.
func (s *Store) countsToken(token uint64) bool {
	floor := uint64(s.gauges.floor.Load())
	return floor == 0 || token > floor
}

// again is a channel to wait for that waits for nothing.
var again = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// enqueue puts o into the queue. Without a result the caller tries again after wait: the database has changed since it was looked
// at, or the queue is too full.
func (s *Store) enqueue(o *op, have found, seen uint64) (result cache.PutResult, wait <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		s.dropSpoolLocked(o)
		return cache.PutRefused, nil
	}
	if q, ok := s.queue.latest[o.hash]; ok {
		have = found{ok: q.rec != nil && q.rec.Key == o.rec.Key, token: q.token}
	} else if seen != s.removals.Load() {
		return 0, again
	}
	switch {
	case have.ok && have.token > o.token, s.gone.Floor(o.hash) > o.token, !s.countsToken(o.token):
		s.dropSpoolLocked(o)
		return cache.PutOlder, nil
	case s.failing, s.tooLarge(o.rec):
		s.refuseLocked(o, have)
		return cache.PutRefused, nil
	case have.ok && have.token == o.token && s.queue.bytes > s.opt.Queue/2:
		s.w.wake()
		return 0, s.roomLocked()
	}
	o.fresh = have.none // until o is written: only the writer adds keys
	s.keepSpoolLocked(o)
	s.pushLocked(o)
	s.overflowLocked(o)
	return cache.PutStored, nil
}

func (s *Store) tooLarge(r *cache.Record) bool {
	size := r.Cost()
	if _, counted := r.Body.Bytes(); !counted {
		size += r.Body.Size()
	}
	return size > s.largest()
}

// largest is how many bytes one record may take.
func (s *Store) largest() int64 { return s.opt.Max / 4 * 3 }

// BodyLimit is what that leaves to a body.
func (s *Store) BodyLimit() int64 { return max(s.largest()-cache.UsualFields, 0) }

// refuseLocked turns o down. What it would have replaced is out of date.
func (s *Store) refuseLocked(o *op, have found) {
	s.counts.rejected.Add(1)
	s.dropSpoolLocked(o)
	s.gone.Add(o.hash, o.token)
	if have.ok {
		s.pushLocked(&op{hash: o.hash, token: o.token, cost: opOverhead})
	}
	s.boundLocked()
}

func (s *Store) pushLocked(o *op) {
	s.queue.push(o)
	if !s.failing {
		s.w.wake()
	}
}

// overflowLocked drops the oldest writes while the queue is over its bound, but not the latest. Their keys are deleted instead, so that
// what they would have replaced does not come back.
func (s *Store) overflowLocked(latest *op) {
	for s.queue.bytes > s.opt.Queue {
		o := s.queue.oldestPut()
		if o == nil || o == latest {
			return
		}
		s.counts.dropped.Add(1)
		s.turnLocked(o)
	}
}

// turnLocked makes a deletion of a put that the writer has not taken.
func (s *Store) turnLocked(o *op) {
	s.gone.Add(o.hash, o.token)
	s.releaseLocked(o)
	s.queue.forgetTerms(o)
	s.queue.bytes += opOverhead - o.cost
	o.rec, o.body, o.cost = nil, nil, opOverhead
}

// boundLocked keeps the number of changes that wait for a failing disk bounded: instead of remembering each key it forgets every
// record up to the highest token among them.
func (s *Store) boundLocked() {
	if !s.failing || len(s.queue.order) <= s.opt.changes {
		return
	}
	notes := false
	for _, o := range s.queue.order {
		notes = notes || o.note != nil
		s.raiseFloorLocked(o.token)
		s.releaseLocked(o)
		s.queue.leave(o)
	}
	s.queue.order = nil
	if notes {
		s.rewriteLocked()
	}
}

func (s *Store) raiseFloorLocked(token uint64) {
	if token > uint64(s.gauges.floor.Load()) {
		s.gauges.floor.Store(int64(token))
	}
}

// Delete forgets the record of this key if its token is not above token, and tells whether there was one. If very many changes
// wait to be written, it waits for the writer.
func (s *Store) Delete(key string, token uint64) bool {
	h := s.hash(key)
	for {
		have, seen := s.peek(h, key)
		was, done, wait := s.enqueueDelete(h, key, token, have, seen)
		if wait != nil {
			<-wait
		}
		if done {
			return was
		}
	}
}

func (s *Store) enqueueDelete(h uint64, key string, token uint64, have found, seen uint64) (was, done bool, wait <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false, true, nil
	}
	if q, ok := s.queue.latest[h]; ok {
		have = found{ok: q.rec != nil && q.rec.Key == key, token: q.token}
	} else if seen != s.removals.Load() {
		return false, false, nil
	}
	if !have.ok || have.token > token {
		return false, true, nil
	}
	if len(s.queue.order) > s.opt.changes && !s.failing {
		return false, false, s.roomLocked()
	}
	s.counts.purged.Add(1)
	s.gone.Add(h, have.token)
	s.pushLocked(&op{hash: h, token: have.token, cost: opOverhead})
	s.boundLocked()
	return true, true, nil
}

// roomLocked returns a channel that closes when the queue has got shorter.
func (s *Store) roomLocked() <-chan struct{} {
	if s.room == nil {
		s.room = make(chan struct{})
	}
	return s.room
}

func (s *Store) wakeRoomLocked() {
	if s.room != nil {
		close(s.room)
		s.room = nil
	}
}

// keepSpoolLocked keeps the file of o's body, which has no record in the database yet, until o is done.
func (s *Store) keepSpoolLocked(o *op) {
	if o.body == nil {
		return
	}
	if sp := s.spools[o.body.ref.id]; sp != nil {
		sp.refs++
		o.kept = sp
	}
}

// releaseLocked lets go what keepSpoolLocked kept.
func (s *Store) releaseLocked(o *op) {
	if o.kept != nil {
		o.kept.refs--
		s.sweepSpoolLocked(o.kept)
		o.kept = nil
	}
}

// dropSpoolLocked does for a refused op what the end of one does.
func (s *Store) dropSpoolLocked(o *op) {
	s.keepSpoolLocked(o)
	s.releaseLocked(o)
}
