package disk

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
)

const (
	// batchBytes and batchOps bound what one transaction carries.
	batchBytes = 8 << 20
	batchOps   = 4096
	// opPages is about how much of the file one change rewrites in metadata, in bytes: two pages.
	opPages = 8 << 10
)

// batch returns the bounds for this budget: a transaction copies pages before it frees any, and a sixteenth of the budget is all
// that is kept free for that.
func (s *Store) batch() (bytes int64, ops int) {
	spare := s.opt.Max / 16
	return min(batchBytes, spare), int(min(batchOps, spare/opPages/2))
}

// writer is the goroutine that carries the queue to disk. Its fields are its own, but for the channels.
type writer struct {
	s       *Store
	st      state
	scratch scratch
	wakes   chan struct{} // holds one wake-up
	flushes chan flush
	aborted atomic.Bool // a flush at the end ran out of time

	retryAt time.Time // while failing
	pause   time.Duration
	cause   error

	tellCrowded time.Time // not before
}

// flush asks the writer to write all that is queued at once.
type flush struct {
	final bool
	done  chan error // of room for one
}

func (w *writer) init(s *Store) {
	w.s = s
	w.wakes, w.flushes = make(chan struct{}, 1), make(chan flush)
}

func (w *writer) wake() {
	select {
	case w.wakes <- struct{}{}:
	default:
	}
}

func (w *writer) flush(ctx context.Context, final bool) error {
	f := flush{final: final, done: make(chan error, 1)}
	select {
	case w.flushes <- f:
	case <-w.s.stop:
		return errClosed
	case <-ctx.Done():
		w.aborted.Store(final)
		return context.Cause(ctx)
	}
	select {
	case err := <-f.done:
		return err
	case <-ctx.Done():
		w.aborted.Store(final)
		return context.Cause(ctx)
	}
}

// run is the goroutine. A change that wakes it waits for a moment, so that more can gather.
func (w *writer) run() {
	timer := time.NewTimer(0)
	<-timer.C
	pending := false
	for {
		select {
		case <-w.s.stop:
			return
		case f := <-w.flushes:
			w.serve(f)
			pending = false
		case <-w.wakes:
			if !pending {
				timer.Reset(w.linger())
				pending = true
			}
		case <-timer.C:
			pending = false
			_ = w.pass(false) // told to Notify
		}
		if w.cause != nil && !pending {
			timer.Reset(time.Until(w.retryAt))
		}
	}
}

// serve does what f and all others that wait ask for, in one pass: each has queued its changes before it asked.
func (w *writer) serve(f flush) {
	list := w.gather(f)
	err := w.pass(slices.ContainsFunc(list, func(f flush) bool { return f.final }))
	for _, f := range list {
		f.done <- err
	}
}

func (w *writer) gather(f flush) []flush {
	list := []flush{f}
	for {
		select {
		case f := <-w.flushes:
			list = append(list, f)
		default:
			return list
		}
	}
}

// linger is how long to wait after the first change.
func (w *writer) linger() time.Duration {
	w.s.mu.RLock()
	defer w.s.mu.RUnlock()
	if w.s.queue.bytes > w.s.opt.Queue/4 || w.s.gauges.spooled.Load() > w.s.opt.Max/32 {
		return 0
	}
	return max(w.s.opt.Linger, 0)
}

// pass writes all that is queued when it begins. While the disk is failing it does nothing until it is time to try again; a final pass tries.
func (w *writer) pass(final bool) error {
	w.s.removeGarbage()
	err := w.mend()
	if err == nil && w.cause != nil && !final && time.Now().Before(w.retryAt) {
		return w.cause
	}
	if err == nil {
		err = w.writeAll()
	}
	if err != nil {
		w.fail(err)
		return err
	}
	w.s.removeGarbage()
	w.recovered()
	return nil
}

func (w *writer) writeAll() error {
	if w.s.gauges.spooled.Load() > 0 {
		if err := w.makeRoom(nil, 0); err != nil {
			return err
		}
	}
	// No more than waited at the start: under steady writes the queue may never be empty, and a Sync would never end.
	for left := w.s.queueLen(); left > 0 && !w.aborted.Load(); {
		list := w.s.take()
		if len(list) == 0 {
			break
		}
		left -= len(list)
		if err := w.write(list); err != nil {
			w.s.putBack(list)
			return err
		}
	}
	if uint64(w.s.gauges.floor.Load()) > w.st.floor {
		return w.commit(false, func(*txn) error { return nil })
	}
	return nil
}

func (s *Store) queueLen() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.queue.order)
}

func (s *Store) take() []*op {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.take(s.batch())
}

func (s *Store) putBack(list []*op) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue.putBack(list)
}

// current keeps those of list that are still the latest change of their key, or one of the journal.
func (s *Store) current(list []*op) []*op {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]*op, 0, len(list))
	for _, o := range list {
		if o.note != nil || s.queue.latest[o.hash] == o {
			out = append(out, o)
		}
	}
	return out
}

// commit runs f in one transaction. bounded keeps the database file within the budget.
func (w *writer) commit(bounded bool, f func(*txn) error) error {
	var t *txn
	err := w.update(bounded, func(tx *bbolt.Tx) error {
		t = newTxn(tx, w.st, *w.s.pending.Load(), &w.scratch)
		t.st.epoch = w.s.ids.epoch()
		t.st.floor = max(t.st.floor, uint64(w.s.gauges.floor.Load()))
		if err := f(t); err != nil {
			return err
		}
		if err := t.index(); err != nil {
			return err
		}
		if err := t.saveTerms(); err != nil {
			return err
		}
		if err := t.save(); err != nil {
			return err
		}
		// Before anybody can find them gone: else a straggler that an evicted record had overtaken could come in between.
		w.s.remember(t.evicted)
		return w.s.opt.fault(faultCommit)
	})
	if err != nil {
		return err
	}
	w.st = t.st
	w.s.pending.Store(&t.pending) // before what was committed leaves the queue
	w.s.counts.commits.Add(1)
	w.s.countEvicted(t.evicted)
	for _, id := range t.unlink {
		w.s.removeBody(id)
	}
	w.publish()
	return nil
}

func (w *writer) update(bounded bool, f func(*bbolt.Tx) error) error {
	s := w.s
	s.dbMu.RLock()
	defer s.dbMu.RUnlock()
	if s.db == nil {
		return errClosed
	}
	s.db.MaxSize = 0
	if bounded {
		s.db.MaxSize = int(max(min(dbShare(s.opt.Max), s.opt.Max-int64(w.st.fileBytes)-s.gauges.spooled.Load()), 1))
	}
	return guard(func() error { return s.db.Update(f) })
}

// publish shows the state to readers.
func (w *writer) publish() {
	g := &w.s.gauges
	g.records.Store(int64(w.st.records))
	g.token.Store(int64(max(w.st.token, uint64(g.token.Load()))))
	g.floor.Store(max(g.floor.Load(), int64(w.st.floor)))
	size, free := w.s.fileSizes()
	g.bytes.Store(size - free + int64(w.st.fileBytes))
	g.onDisk.Store(size + int64(w.st.fileBytes))
}

// remember keeps the tokens of records that are about to be evicted.
func (s *Store) remember(list []victim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range list {
		s.gone.Add(v.hash, v.token)
	}
}

func (s *Store) countEvicted(list []victim) {
	for _, v := range list {
		if v.expired {
			s.counts.expired.Add(1)
		} else {
			s.counts.evicted.Add(1)
		}
	}
}

// finish takes a batch that is on disk out of the queue.
func (s *Store) finish(list []*op, items []item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removals.Add(1)
	for _, it := range items {
		if sp := it.o.kept; sp != nil && !it.gone && s.spools[sp.id] == sp {
			sp.owned = true // the file has a record from now on
			delete(s.spools, sp.id)
			s.gauges.spooled.Add(-sp.Size())
		}
	}
	for _, o := range list {
		if o.note != nil {
			s.noteDoneLocked(o.note)
		}
		s.absent.remove(o.hash)
		s.releaseLocked(o)
		s.queue.leave(o)
	}
	s.wakeRoomLocked()
}
