package memory

import (
	"sync"
	"time"
)

// batch is how many changes are carried over before the settler waits for ristretto: well below the 32 Ki that its buffer takes, so
// that no set is dropped.
const batch = 1024

// linger is how long the settler lets arrivals gather after the first. The overlay shows them meanwhile; a pass for each would cost four
// switches between goroutines.
const linger = time.Millisecond

// stepSize is how many changes the settler's goroutine carries over between two rests, or a quarter of those that wait if that is more: about
// a quarter of a millisecond of work. With one processor nobody looks at the network while there is other work.
const stepSize = 64

// settler carries arrivals over to ristretto. It is the only writer of ristretto.
type settler struct {
	wake chan struct{} // holds one wake-up
	done chan struct{}

	queueMu sync.Mutex // guards following
	queue   []*arrival
	sparse  []*segment // to be packed anew

	passMu    sync.Mutex // guards following, and is held for a whole pass
	probation []*arrival // in order of arrival
	onTrial   int64      // bytes of those that are still current, at most
	packer    packer
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
	t.probation, t.packer = nil, packer{}
}

func (t *settler) push(list ...*arrival) {
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
func (t *settler) pushSparse(g *segment) {
	t.queueMu.Lock()
	defer t.queueMu.Unlock()
	t.sparse = append(t.sparse, g)
}

func (t *settler) takeSparse() *segment {
	t.queueMu.Lock()
	defer t.queueMu.Unlock()
	if len(t.sparse) == 0 {
		t.sparse = nil
		return nil
	}
	g := t.sparse[0]
	t.sparse[0], t.sparse = nil, t.sparse[1:]
	return g
}

func (t *settler) take(most int) []*arrival {
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
	return t.pack(s) || carried
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
	for _, a := range list {
		s.apply(a)
	}
	s.tier.Wait()
	for _, a := range list {
		t.landed(s, a)
	}
	t.trim(s)
	return true
}

// barrier waits until ristretto has done, and told, all that it had begun.
func (t *settler) barrier(s *Store) {
	t.passMu.Lock()
	defer t.passMu.Unlock()
	if !s.closing.Load() {
		s.tier.Wait()
	}
}

// apply hands a to ristretto unless it was overtaken.
func (s *Store) apply(a *arrival) {
	sh := s.shard(a.hash)
	sh.mu.Lock()
	current := sh.isCurrentLocked(a)
	a.out, a.again = false, a.probation
	sh.mu.Unlock()
	switch {
	case !current:
	case a.in.rec == nil:
		s.tier.Del(a.hash)
	default:
		s.set(a)
	}
}

// set offers a record. One that replaces a smaller one is offered anew: ristretto makes no room when a record grows in place.
func (s *Store) set(a *arrival) {
	if old := s.tierPeek(a.hash); old != nil && old.Cost() < a.cost {
		s.tier.Del(a.hash)
	}
	s.counts.records.Add(1)
	for !s.tier.Set(a.hash, a.in, a.cost) {
		s.tier.Wait()
	}
}

// landed takes a out of the overlay if ristretto holds it, else puts it on probation, once and if it fits there.
func (t *settler) landed(s *Store, a *arrival) {
	sh := s.shard(a.hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	switch {
	case !sh.isCurrentLocked(a):
	case a.in.rec == nil:
		s.leaveLocked(sh, a)
	case !a.out:
		s.leaveLocked(sh, a)
		t.settled(a.in)
	case a.again, a.cost > s.sizes.window:
		s.rejectLocked(sh, a)
	default:
		a.probation = true
		a.read.Store(false)
		t.probation = append(t.probation, a)
		t.onTrial += a.cost
		t.settled(a.in)
	}
}

// settled has a record packed that is not yet and that has found its place.
func (t *settler) settled(h *held) {
	if h.alone() {
		t.packer.add(h)
	}
}

// trim ends the probation of the oldest until the rest fits the window: those that were read are offered again.
func (t *settler) trim(s *Store) {
	var again []*arrival
	for t.onTrial > s.sizes.window {
		a := t.probation[0]
		t.probation = t.probation[1:]
		t.onTrial -= a.cost
		if s.endProbation(a) {
			again = append(again, a)
		}
	}
	if len(again) > 0 {
		t.push(again...)
	}
}

// endProbation drops a, or tells that it is worth another offer.
func (s *Store) endProbation(a *arrival) (again bool) {
	sh := s.shard(a.hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	switch {
	case !sh.isCurrentLocked(a):
		return false
	case a.read.Load():
		return true
	}
	s.rejectLocked(sh, a)
	return false
}

// rejectLocked forgets a record that ristretto did not want.
func (s *Store) rejectLocked(sh *shard, a *arrival) {
	s.leaveLocked(sh, a)
	a.rejected = true
	s.forget(a.in)
	s.countDropped(a.in.rec, &s.counts.rejected)
	sh.ghosts.Add(a.hash, a.in.rec.Token)
}
