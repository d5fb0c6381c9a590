package fill

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// shard is a part of a table's keys with a mutex of its own. Who wants to tell owners or waiters something collects it in an
// ending under the mutex and tells it after unlocking.
type shard struct {
	table *Table
	// waiting counts registered waiters; it is written without the mutex.
	waiting atomic.Int64

	mu     sync.Mutex // guards following
	index  index
	due    deadlines
	timer  *time.Timer // made with the first lease
	armed  int64       // when the timer fires, 0 if it is not set
	rush   rush
	closed bool
	counts counts

	_ [64]byte // keeps the mutexes of two shards apart in the processor's cache
}

// ending is what to tell once the mutex is released. The zero value tells nothing.
type ending struct {
	own    *ownCtx
	cause  error
	grip   Grip // a remote claim to give up before waiters try theirs
	lapse  bool // and leave it to be taken, in place of removing it
	signal *signal
	out    Outcome
	// again is a displaced lease that has its key again, and needs its remote claim.
	again *Lease
}

func (e *ending) tell() {
	if e.own != nil {
		e.own.cancel(e.cause)
	}
	if e.grip != nil {
		e.giveUp()
	}
	if e.again != nil {
		e.again.shard.regrip(e.again)
	}
	if e.signal != nil {
		e.signal.send(e.out)
	}
}

// giveUp gives a remote claim up. If that fails, the claim goes stale, and others take it then.
func (e *ending) giveUp() {
	if e.lapse {
		_ = e.grip.Lapse()
		return
	}
	_ = e.grip.Release()
}

// setLocked moves l to a state and keeps the gauges.
func (s *shard) setLocked(l *Lease, to state) {
	s.counts.gauge(l.is(), -1)
	s.counts.gauge(to, 1)
	l.mark(to)
}

// fromNow, as the end of a claim, is a tenure from the moment of the grant.
const fromNow = 0

// grantLocked makes a lease on a free key, or with a Remote a reservation that take completes.
func (s *shard) grantLocked(key Key, hash uint32, to state, until int64) *Lease {
	l := &Lease{key: key, shard: s, hash: hash, until: until, stateWord: uint32(to)}
	s.index.put(l)
	if s.table.remote != nil {
		l.stateWord = uint32(stateTaking)
		if until == fromNow {
			l.until = s.table.tenureEnd()
		}
		return l
	}
	l.token = s.table.sequence.Next()
	s.counts.gauge(to, 1)
	s.counts.granted++
	if until == fromNow {
		s.beginTenureLocked(l)
	} else {
		s.watchLocked(l, until)
	}
	return l
}

// granted completes what grantLocked began. Called without the mutex.
func (s *shard) granted(l *Lease, newer bool, to state) (*Lease, error) {
	if s.table.remote == nil {
		return l, nil
	}
	if err := s.take(l, newer, to); err != nil {
		return nil, err
	}
	return l, nil
}

// watchLocked has l looked at when its time is over.
func (s *shard) watchLocked(l *Lease, at int64) {
	if at == never {
		s.due.remove(l)
		return
	}
	s.due.set(l, at)
	s.armLocked()
}

// armLocked sets the timer for the first deadline, unless it is set for an earlier moment already. A timer is never stopped for
// a lease that ended: it finds nothing to do, once a tenure at most.
func (s *shard) armLocked() {
	first, ok := s.due.first()
	if !ok || s.closed || (s.armed != 0 && s.armed <= first.at) {
		return
	}
	s.armed = first.at
	wait := time.Duration(first.at - s.table.now())
	if s.timer == nil {
		s.timer = time.AfterFunc(wait, s.expire)
		return
	}
	s.timer.Reset(wait)
}

// expireBatch bounds how many leases end in one go with the mutex held.
const expireBatch = 256

// expire ends what is due. It runs in the timer's goroutine.
func (s *shard) expire() {
	for more := true; more; {
		var ended []ending
		var foreign []*Lease
		ended, foreign, more = s.expireSome()
		for i := range ended {
			ended[i].tell()
		}
		for _, l := range foreign {
			s.pollForeign(l)
		}
	}
}

func (s *shard) expireSome() (ended []ending, foreign []*Lease, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.table.now()
	for range expireBatch {
		first, ok := s.due.first()
		if !ok || first.at > now {
			break
		}
		if first.l.is() == stateForeign && first.l.seen().signal != nil {
			s.due.remove(first.l)
			foreign = append(foreign, first.l)
		} else if e, over := s.expireLocked(first.l, now); over {
			ended = append(ended, e)
		}
	}
	s.armed = 0
	if first, ok := s.due.first(); ok && first.at <= now {
		return ended, foreign, true
	}
	s.armLocked()
	return ended, foreign, false
}

// expireLocked looks at one lease whose deadline passed: renewed meanwhile, over, or remembered long enough.
func (s *shard) expireLocked(l *Lease, now int64) (e ending, over bool) {
	was := l.is()
	switch was {
	case stateLapsed:
		return s.endLocked(l, stateLost, Outcome{}), true
	case stateForeign:
		return s.endLocked(l, stateSettled, Outcome{}), true
	case stateReleasing: // its owner is ending it
		s.due.remove(l)
		return ending{}, false
	}
	// Marked first, judged then: a Renew that this look misses finds the mark.
	l.mark(stateLapsed)
	if until := l.end(); until > now {
		l.mark(was)
		s.watchLocked(l, until)
		return ending{}, false
	}
	l.mark(was)
	s.setLocked(l, stateLapsed)
	s.counts.lapsed++
	s.watchLocked(l, now+s.table.remember())
	e = s.endingLocked(l, Outcome{Kind: TenureOver})
	e.lapse = true
	return e, true
}

// endingLocked collects what l's owner and waiters are to be told in its present state.
func (s *shard) endingLocked(l *Lease, out Outcome) ending {
	if l.ties == nil {
		return ending{}
	}
	e := ending{own: l.ties.own, cause: l.is().cause(), grip: l.ties.grip, signal: l.ties.signal, out: out}
	l.ties.signal = nil
	l.announced = false
	return e
}

// endLocked takes l out of the table for good.
func (s *shard) endLocked(l *Lease, to state, out Outcome) ending {
	s.leaveLocked(l, to)
	return s.endingLocked(l, out)
}

func (s *shard) leaveLocked(l *Lease, to state) {
	s.index.remove(l)
	s.unwatchLocked(l)
	s.setLocked(l, to)
}

// renew is the way of a lease that is not simply held: lapsed ones take their key again.
func (s *shard) renew(l *Lease) error {
	s.mu.Lock()
	was := l.is()
	switch {
	case was == stateHeld:
		l.setEnd(s.table.tenureEnd())
	case was == stateLapsed && s.table.remote == nil:
		s.retakeLocked(l, stateHeld, s.table.tenureEnd())
	case was == stateLapsed:
		s.setLocked(l, stateTaking)
		s.due.remove(l)
		s.mu.Unlock()
		return s.retake(l, stateHeld)
	default:
		defer s.mu.Unlock()
		return was.cause()
	}
	s.mu.Unlock()
	return nil
}

// retakeLocked gives a lease that nobody took the key from its claim back.
func (s *shard) retakeLocked(l *Lease, to state, until int64) {
	s.setLocked(l, to)
	l.setEnd(until)
	if l.ties != nil {
		l.ties.own = nil // the old one has ended
	}
	s.watchLocked(l, until)
	s.counts.retaken++
}

func (s *shard) announce(l *Lease) {
	s.mu.Lock()
	if l.is() != stateHeld {
		s.mu.Unlock()
		return
	}
	l.announced = true
	old := l.seen().signal
	if old != nil {
		old.next = newSignal()
		l.ties.signal = old.next
	}
	s.mu.Unlock()
	if old != nil {
		old.send(Outcome{Kind: Announced})
	}
}

// settle ends l by its owner, if it is still in office. A lapsed or displaced lease is only noted as done.
func (s *shard) settle(l *Lease, o Outcome) (counted bool, err error) {
	if !o.Kind.ownersKind() {
		o.Kind = Abandoned
	}
	s.mu.Lock()
	was := l.is()
	if was != stateHeld && was != stateQueued {
		e := s.doneLateLocked(l, was)
		s.mu.Unlock()
		e.tell()
		return false, was.cause()
	}
	if s.table.remote != nil {
		s.setLocked(l, stateReleasing)
		s.mu.Unlock()
		return s.settleRemote(l, o)
	}
	if l.ties == nil { // nobody to tell
		s.leaveLocked(l, stateSettled)
		s.counts.settled++
		s.mu.Unlock()
		return true, nil
	}
	e := s.settleLocked(l, o)
	s.mu.Unlock()
	e.tell()
	return true, nil
}

func (s *shard) settleLocked(l *Lease, o Outcome) ending {
	l.setDisplaced(nil)
	s.counts.settled++
	return s.endLocked(l, stateSettled, o)
}

// settleRemote gives the remote claim back first: whoever is woken can take it.
func (s *shard) settleRemote(l *Lease, o Outcome) (counted bool, err error) {
	err = l.ties.grip.Release()
	s.mu.Lock()
	if was := l.is(); was != stateReleasing {
		s.mu.Unlock() // displaced or closed meanwhile
		return false, errors.Join(was.cause(), err)
	}
	if errors.Is(err, ErrLeaseLost) {
		s.setLocked(l, stateHeld) // so that lose takes it
		s.mu.Unlock()
		s.lose(l)
		return false, err
	}
	e := s.settleLocked(l, o)
	e.grip = nil
	s.mu.Unlock()
	e.tell()
	return true, err
}

// doneLateLocked notes that the owner of an ended lease is done with it.
func (s *shard) doneLateLocked(l *Lease, was state) (e ending) {
	switch was {
	case stateLapsed:
		s.counts.settledLate++
		e = s.endLocked(l, stateSettled, Outcome{})
	case stateSettled, stateReleasing:
		s.counts.settledAgain++
	default:
		s.counts.settledOvertaken++
		l.tied().gone = true
	}
	l.setDisplaced(nil)
	return e
}

// displaceLocked ends whoever has the key by a newer claim. l may be nil.
func (s *shard) displaceLocked(l *Lease) (e ending) {
	if l == nil {
		return ending{}
	}
	was := l.is()
	l.setDisplaced(restorable(l.seen().displaced))
	if l.place < 0 {
		s.stampLocked(l, s.table.tenureEnd()) // a rollback has to know its end
	}
	e = s.endLocked(l, stateSuperseded, Outcome{Kind: Superseded})
	if was.claims() {
		s.counts.superseded++
	}
	return e
}

// restorable returns the lease that a rollback brings back when l was displaced: l, or, if l's owner has tried to roll it back
// too, the one before. An owner who is done with l otherwise has had the key: nobody older gets it back from that.
func restorable(l *Lease) *Lease {
	for l != nil && l.seen().undone {
		l = l.seen().displaced
	}
	if l != nil && l.seen().gone {
		return nil
	}
	return l
}

// gripsBelow returns the remote claims under l's own: those of displaced leases that were undone, and the one that a rollback brings back.
func (l *Lease) gripsBelow() (undone []Grip, old Grip) {
	below := l.seen().displaced
	for below != nil && below.seen().undone {
		undone = append(undone, below.seen().grip)
		below = below.seen().displaced
	}
	if back := restorable(below); back != nil {
		old = back.seen().grip
	}
	return undone, old
}

// forgetBefore makes sure that no rollback of l brings back a lease with a token below token. l may be nil.
func (l *Lease) forgetBefore(token uint64) {
	for l != nil {
		old := l.seen().displaced
		if old != nil && old.token < token {
			l.setDisplaced(nil) // what it displaced is older still
			return
		}
		l = old
	}
}

// rollback ends l if it is still its own and puts the one it displaced back.
func (s *shard) rollback(l *Lease) error {
	s.mu.Lock()
	was := l.is()
	if was != stateHeld && was != stateQueued && was != stateLapsed {
		defer s.mu.Unlock()
		l.tied().undone = true
		s.counts.rollbackRefused++
		return was.cause()
	}
	if s.table.remote != nil {
		undone, old := l.gripsBelow()
		s.setLocked(l, stateReleasing)
		s.mu.Unlock()
		return s.rollbackRemote(l, undone, old)
	}
	e := s.rollbackLocked(l)
	s.mu.Unlock()
	e.tell()
	return nil
}

func (s *shard) rollbackLocked(l *Lease) ending {
	e := s.endLocked(l, stateSettled, Outcome{Kind: Abandoned})
	e.grip = nil
	s.restoreDisplacedLocked(l, &e)
	s.counts.rolledBack++
	return e
}

// rollbackRemote undoes the remote claim first, then the one in the table.
func (s *shard) rollbackRemote(l *Lease, undone []Grip, old Grip) error {
	err := l.ties.grip.Rollback(undone, old)
	s.mu.Lock()
	was := l.is()
	if was != stateReleasing {
		l.tied().undone = true
		s.counts.rollbackRefused++
		s.mu.Unlock()
		return errors.Join(was.cause(), err)
	}
	if errors.Is(err, ErrLeaseLost) {
		s.counts.rollbackRefused++
		s.setLocked(l, stateHeld) // so that lose takes it
		s.mu.Unlock()
		s.lose(l)
		return err
	}
	e := s.rollbackLocked(l)
	s.mu.Unlock()
	e.tell()
	return err
}

// restoreDisplacedLocked brings the lease back that l displaced, if its owner still wants it.
func (s *shard) restoreDisplacedLocked(l *Lease, e *ending) {
	old := restorable(l.seen().displaced)
	l.setDisplaced(nil)
	if old == nil {
		return
	}
	s.restoreLocked(old)
	if old.seen().grip != nil && old.claimed() {
		e.again = old
	}
}

// restoreLocked brings a displaced lease back: it holds its key, or, if its time is over, may commit.
func (s *shard) restoreLocked(l *Lease) {
	s.index.put(l)
	if until := l.end(); until > s.table.now() {
		s.retakeLocked(l, l.claimState(), until)
		return
	}
	s.setLocked(l, stateLapsed)
	s.watchLocked(l, s.table.now()+s.table.remember())
}

// regrip takes the remote claim of a restored lease again.
func (s *shard) regrip(l *Lease) {
	if errors.Is(l.ties.grip.Retake(), ErrLeaseLost) {
		s.lose(l)
	}
}
