package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/swrproxy/swrproxy/cache"
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
	wakes   chan struct{} // holds one wake-up
	flushes chan flush
	aborted atomic.Bool // a flush at the end ran out of time

	retryAt time.Time // while failing
	pause   time.Duration
	cause   error
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
			f.done <- w.pass(f.final)
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

// linger is how long to wait after the first change.
func (w *writer) linger() time.Duration {
	w.s.mu.RLock()
	defer w.s.mu.RUnlock()
	if w.s.queue.bytes > w.s.opt.Queue/4 || w.s.gauges.spooled.Load() > w.s.opt.Max/32 {
		return 0
	}
	return max(w.s.opt.Linger, 0)
}

// pass writes all that is queued. While the disk is failing it does nothing until it is time to try again; a final pass tries.
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
	for !w.aborted.Load() {
		list := w.s.take()
		if len(list) == 0 {
			break
		}
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

// current keeps those of list that are still the latest change of their key.
func (s *Store) current(list []*op) []*op {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []*op
	for _, o := range list {
		if s.queue.latest[o.hash] == o {
			out = append(out, o)
		}
	}
	return out
}

// write carries a batch to disk: room, body files, transaction. After an error everything is as before, but for evictions.
func (w *writer) write(list []*op) error {
	items := make([]item, 0, len(list))
	for _, o := range w.s.current(list) {
		items = append(items, w.plan(o))
	}
	if err := w.makeRoom(items, 0); err != nil {
		return err
	}
	err := w.writeBodies(items)
	if err == nil {
		err = w.commitItems(items)
	}
	if err != nil {
		w.removeBodies(items)
		return err
	}
	w.s.finish(list, items)
	return nil
}

// item is a change as it goes into the database.
type item struct {
	o       *op
	ref     ref
	content []byte // an inline body to write
	file    bool   // a body file to write
	wrote   bool   // and it is written
	gone    bool   // the body could not be read: the key is deleted instead
}

// plan decides where the body of o goes.
func (w *writer) plan(o *op) item {
	it := item{o: o}
	if o.rec == nil {
		return it
	}
	b := o.rec.Body
	switch p, inMemory := b.Bytes(); {
	case o.body != nil:
		it.ref = o.body.ref
	case b.Size() == 0:
	case b.Size() > maxInline:
		it.ref = ref{kind: bodyFile, id: w.s.ids.next(), size: b.Size()}
		it.file = true
	case inMemory:
		it.setContent(w.s, p)
	default:
		p, err := read(b)
		it.gone = err != nil
		it.setContent(w.s, p)
	}
	return it
}

func (it *item) setContent(s *Store, p []byte) {
	it.content = p
	it.ref = ref{kind: bodyInline, id: s.ids.next(), size: int64(len(p)), sum: xxhash.Sum64(p)}
}

// read reads a small body that lives somewhere else.
func read(b cache.Body) ([]byte, error) {
	f, err := b.Open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p := make([]byte, b.Size())
	_, err = io.ReadFull(f, p)
	return p, err
}

// needs is about how much room items take: pages are not filled to the end.
func needs(items []item) (inDB, inFiles int64) {
	for _, it := range items {
		if it.o.rec == nil || it.gone {
			continue
		}
		inDB += (it.o.rec.Cost() - it.inMemory()) * 3 / 2
		inDB += int64(len(it.content)) * 9 / 8
		if it.file {
			inFiles += blocks(it.ref.size)
		}
	}
	return inDB, inFiles
}

// inMemory is the part of the record's cost that is its body.
func (it *item) inMemory() int64 {
	p, _ := it.o.rec.Body.Bytes()
	return int64(len(p))
}

// writeBodies writes the body files of items and moves spools to their place.
func (w *writer) writeBodies(items []item) error {
	for i := range items {
		it := &items[i]
		var err error
		switch {
		case it.gone:
		case it.file:
			err = w.writeBody(it)
		case it.o.kept != nil && !it.o.kept.moved:
			if err = w.s.place(it.ref.id); err == nil {
				it.o.kept.moved = true
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) writeBody(it *item) error {
	r, err := w.s.writeFile(it.ref.id, it.o.rec.Body)
	switch {
	case errors.Is(err, errSource):
		it.gone = true
	case err != nil:
		return err
	default:
		it.ref, it.wrote = r, true
	}
	return nil
}

func (w *writer) removeBodies(items []item) {
	for _, it := range items {
		if it.wrote {
			w.s.removeBody(it.ref.id)
		}
	}
}

// growthTries is how often a batch is tried within the bound on the database file, with more evicted each time, before it may
// grow beyond: free pages may be too scattered for large values.
const growthTries = 4

// commitItems puts items into the database.
func (w *writer) commitItems(items []item) error {
	for try := int64(1); ; try++ {
		err := w.commit(try <= growthTries, func(t *txn) error { return t.apply(items) })
		if !errors.Is(err, berrors.ErrMaxSizeReached) {
			return err
		}
		if err := w.makeRoom(items, w.s.opt.Max/16*try); err != nil {
			return err
		}
	}
}

func (t *txn) apply(items []item) error {
	for _, it := range items {
		if err := t.applyOne(it); err != nil {
			return err
		}
	}
	return nil
}

func (t *txn) applyOne(it item) error {
	adopts := it.o.body != nil && (it.o.kept == nil || it.o.kept.owned)
	if it.o.rec == nil || it.gone || adopts && !t.has(it.ref) {
		return t.remove(it.o.hash, 0)
	}
	return t.insert(it.o.hash, it.o.rec, it.ref, it.content)
}

// commit runs f in one transaction. bounded keeps the database file within the budget.
func (w *writer) commit(bounded bool, f func(*txn) error) error {
	var t *txn
	err := w.update(bounded, func(tx *bbolt.Tx) error {
		t = newTxn(tx, w.st)
		t.st.epoch = w.s.ids.epoch()
		t.st.floor = max(t.st.floor, uint64(w.s.gauges.floor.Load()))
		if err := f(t); err != nil {
			return err
		}
		if err := t.save(); err != nil {
			return err
		}
		return w.s.opt.fault(faultCommit)
	})
	if err != nil {
		return err
	}
	w.st = t.st
	w.s.counts.commits.Add(1)
	w.s.forget(t.evicted)
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

// makeRoom evicts until items fit, with extra bytes to spare in the database, and a little more so that not every batch has to.
// Bodies that need a file for which no room can be made are given up.
func (w *writer) makeRoom(items []item, extra int64) error {
	for {
		inDB, inFiles := needs(items)
		u := w.s.usage(w.st)
		l := u.lacks(inDB+extra, inFiles)
		if l.none() {
			return nil
		}
		more, err := w.evict(l, u)
		switch {
		case err != nil:
			return err
		case more:
		case l.files > 0 && w.giveUpFiles(items):
		case l.total > 0 || l.inDB > 0:
			return fmt.Errorf("%w: %d bytes on disk, limit %d", errNoSpace, u.onDisk(), u.limit)
		default:
			return nil // spools alone are over: they end by themselves
		}
	}
}

var errNoSpace = errors.New("disk: no space")

// giveUpFiles drops the bodies of items that need files, and tells whether there were any.
func (w *writer) giveUpFiles(items []item) (any bool) {
	for i := range items {
		it := &items[i]
		if it.gone || !it.file && it.o.kept == nil {
			continue
		}
		it.gone, it.file, any = true, false, true
		w.s.counts.dropped.Add(1)
	}
	return any
}

// evict makes some of the room that is missing, and tells whether it could.
func (w *writer) evict(l lacks, u usage) (any bool, err error) {
	if u.broken > 0 {
		return true, os.Remove(w.s.path(brokenName))
	}
	_, most := w.s.batch()
	more := u.limit / 64 // so that the next batch need not
	evict := func(t *txn) error {
		any = false
		for _, step := range []struct {
			lack   int64
			orders []*bbolt.Bucket
			freed  func() int64
		}{
			{l.total, t.order[:], func() int64 { return t.freedDB + t.freedFiles }},
			{l.inDB, t.order[:1], func() int64 { return t.freedDB }},
			{l.files, t.order[1:], func() int64 { return t.freedFiles }},
		} {
			went, err := t.evict(&w.s.touched, most, step.orders, func() bool { return step.lack <= 0 || step.freed() >= step.lack+more })
			if any = any || went; err != nil {
				return err
			}
		}
		return nil
	}
	if err = w.commit(true, evict); errors.Is(err, berrors.ErrMaxSizeReached) {
		err = w.commit(false, evict)
	}
	return any, err
}

// forget remembers the tokens of evicted records and counts them.
func (s *Store) forget(list []victim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removals++
	for _, v := range list {
		s.gone.Add(v.hash, v.token)
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
	s.removals++
	for _, it := range items {
		if sp := it.o.kept; sp != nil && !it.gone && s.spools[sp.id] == sp {
			sp.owned = true // the file has a record from now on
			delete(s.spools, sp.id)
			s.gauges.spooled.Add(-sp.Size())
		}
	}
	for _, o := range list {
		s.releaseLocked(o)
		s.queue.leave(o)
	}
	s.wakeRoomLocked()
}

// fail suspends writing for a while.
func (w *writer) fail(err error) {
	first := w.cause == nil
	w.s.counts.failures.Add(1)
	w.pause = min(max(2*w.pause, w.s.opt.RetryFirst), w.s.opt.RetryMax)
	w.cause, w.retryAt = err, time.Now().Add(w.pause)
	w.s.setFailing(true)
	if errors.Is(err, errBroken) {
		w.s.report(err)
	}
	if first {
		w.s.opt.Notify(Event{Kind: EventFailing, Text: "writes to " + w.s.opt.Path + " suspended, trying again", Err: err})
	}
}

func (w *writer) recovered() {
	if w.cause == nil {
		return
	}
	w.cause, w.pause = nil, 0
	w.s.setFailing(false)
	w.s.opt.Notify(Event{Kind: EventRecovered, Text: "writes to " + w.s.opt.Path + " work again"})
}

func (s *Store) setFailing(v bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = v
	s.wakeRoomLocked()
}

// mend replaces a database that turned out to be damaged. If it can not, it is asked to again.
func (w *writer) mend() error {
	s := w.s
	s.mu.Lock()
	why := s.broken
	s.broken = nil
	s.mu.Unlock()
	if why == nil {
		return nil
	}
	err := w.replace(why)
	if err != nil {
		s.report(why)
	}
	return err
}

// replace starts with an empty database. What is queued goes into that one.
func (w *writer) replace(why error) error {
	s := w.s
	s.dbMu.Lock()
	old := s.db
	s.db = nil
	if old != nil {
		closeBroken(old)
	}
	err := s.setAside(why)
	if err == nil {
		err = s.openIndexOrNew()
	}
	s.dbMu.Unlock()
	if err == nil {
		w.publish()
		s.collectOrphans()
	}
	return err
}
