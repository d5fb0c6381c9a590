package memory

import (
	"sync"
	"time"
)

// batch is how many changes are carried over before the settler waits for ristretto: well below the 32 Ki that its buffer takes, so
// that no set is dropped.
const batch = 1024

// linger is how long the settler lets arrivals gather after the first. The index shows them meanwhile; a pass for each would cost four
// switches between goroutines.
const linger = time.Millisecond

// stepSize is how many changes the settler's goroutine carries over between two rests, or a quarter of those that wait if that is more: about
// a quarter of a millisecond of work. With one processor nobody looks at the network while there is other work.
const stepSize = 64

// settler carries changes over to ristretto. It is the only writer of ristretto.
type settler struct {
	wake chan struct{} // holds one wake-up
	done chan struct{}

	queueMu sync.Mutex // guards following
	queue   []*change
	sparse  []uint32 // chunks to be packed anew

	passMu    sync.Mutex // guards following, and is held for a whole pass
	probation []trial    // in order of arrival
	onTrial   int64      // bytes of those that are still current, at most
	packers   packers
}

// trial is a record on probation. It ends early if the record is replaced or deleted.
type trial struct {
	hash uint64
	cost int64
	id   arrivalID
}

func (t *settler) start(s *Store) {
	wake := make(chan struct{}, 1)
	t.wake, t.done = wake, make(chan struct{})
	go func() {
		defer close(t.done)
		for range wake {
			for more := true; more; more = t.step(s) {
				time.Sleep(linger)
			}
		}
	}()
}

// stop ends the goroutine. Nothing is pushed any more: all shards are closed.
func (t *settler) stop() {
	t.queueMu.Lock()
	close(t.wake)
	t.wake = nil
	t.queueMu.Unlock()
	<-t.done
	t.passMu.Lock() // a Put or Sync that helps
	defer t.passMu.Unlock()
	t.probation, t.packers = nil, packers{}
}

func (t *settler) push(list ...*change) {
	t.queueMu.Lock()
	defer t.queueMu.Unlock()
	t.queue = append(t.queue, list...)
	if t.wake == nil {
		return
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// pushSparse leaves a segment to the settler's next step. It waits for its turn, in which a purge that began to thin it may have emptied it.
func (t *settler) pushSparse(chunk uint32) {
	t.queueMu.Lock()
	defer t.queueMu.Unlock()
	t.sparse = append(t.sparse, chunk)
}

func (t *settler) takeSparse() (chunk uint32, ok bool) {
	t.queueMu.Lock()
	defer t.queueMu.Unlock()
	if len(t.sparse) == 0 {
		t.sparse = nil
		return 0, false
	}
	chunk, t.sparse = t.sparse[0], t.sparse[1:]
	return chunk, true
}

func (t *settler) take(most int) []*change {
	t.queueMu.Lock()
	defer t.queueMu.Unlock()
	n := min(len(t.queue), most)
	taken := t.queue[:n:n]
	t.queue = t.queue[n:]
	if len(t.queue) == 0 {
		t.queue = nil
	}
	return taken
}

// pass settles all that was pushed before it.
func (t *settler) pass(s *Store) {
	t.passMu.Lock()
	defer t.passMu.Unlock()
	for !s.closing.Load() && t.carry(s, batch) {
	}
}

// step carries some over and fills a segment, and tells whether there may be more to do.
func (t *settler) step(s *Store) (more bool) {
	t.passMu.Lock()
	defer t.passMu.Unlock()
	if s.closing.Load() {
		return false
	}
	carried := t.carry(s, max(stepSize, t.waiting()/4))
	return t.packSome(s) || carried
}

func (t *settler) waiting() int {
	t.queueMu.Lock()
	defer t.queueMu.Unlock()
	return len(t.queue)
}

// carry settles so many changes at most, and tells whether there were any. The caller holds passMu.
func (t *settler) carry(s *Store, most int) bool {
	list := t.take(most)
	if len(list) == 0 {
		return false
	}
	for _, c := range list {
		s.apply(c)
	}
	s.tier.Wait()
	for _, c := range list {
		t.landed(s, c)
	}
	t.trim(s)
	return true
}

// apply hands c to ristretto unless it was overtaken.
func (s *Store) apply(c *change) {
	sh := s.shard(c.hash)
	sh.mu.Lock()
	current := sh.isCurrentLocked(c)
	sh.mu.Unlock()
	switch {
	case !current:
	case c.id == 0:
		s.tier.Del(c.hash)
	default:
		s.offer(c)
	}
}

// landed takes what ristretto has made of c: it holds the record, or that goes on probation, once and if it fits there.
func (t *settler) landed(s *Store, c *change) {
	sh := s.shard(c.hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if !sh.isCurrentLocked(c) {
		return
	}
	sh.doneLocked(c)
	if c.id == 0 {
		return
	}
	e := sh.index.find(c.hash)
	switch {
	case !c.out:
		e.set(c.id, e.place(), settled)
		s.counts.unsettled.Add(-c.cost)
	case c.again, c.cost > s.sizes.window:
		c.rejected = true
		s.loseLocked(sh, e, &s.counts.rejected)
		return
	default:
		e.set(c.id, e.place(), onTrial)
		t.probation = append(t.probation, trial{c.hash, c.cost, c.id})
		t.onTrial += c.cost
	}
	if !c.again { // else it is packed already, or waits for it
		t.packers.add(e, s.chunks.record(e.place()))
	}
}

// trim ends the probation of the oldest until the rest fits the window: those that were asked for are offered again.
func (t *settler) trim(s *Store) {
	var again []*change
	for t.onTrial > s.sizes.window {
		oldest := t.probation[0]
		t.probation = t.probation[1:]
		t.onTrial -= oldest.cost
		if c := s.endTrial(oldest); c != nil {
			again = append(again, c)
		}
	}
	if len(again) > 0 {
		t.push(again...)
	}
}

// endTrial forgets a record, or returns another offer of it.
func (s *Store) endTrial(t trial) (again *change) {
	sh := s.shard(t.hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.entryLocked(t.hash, t.id)
	if e == nil {
		return nil
	}
	if e.standing() == onTrial {
		s.loseLocked(sh, e, &s.counts.rejected)
		return nil
	}
	e.set(t.id, e.place(), moving)
	again = &change{hash: t.hash, cost: t.cost, id: t.id, again: true}
	sh.noteLocked(again)
	return again
}
