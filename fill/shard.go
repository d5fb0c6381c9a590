package fill

import (
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
	closed bool
	counts counts

	_ [64]byte // keeps the mutexes of two shards apart in the processor's cache
}

// ending is what to tell once the mutex is released. The zero value tells nothing.
type ending struct {
	own    *ownCtx
	cause  error
	signal *signal
	out    Outcome
}

func (e *ending) tell() {
	if e.own != nil {
		e.own.cancel(e.cause)
	}
	if e.signal != nil {
		e.signal.send(e.out)
	}
}

// setLocked moves l to a state and keeps the gauges.
func (s *shard) setLocked(l *Lease, to state) {
	s.counts.gauge(state(l.state.Load()), -1)
	s.counts.gauge(to, 1)
	l.state.Store(uint32(to))
}

// grantLocked makes a lease on a free key.
func (s *shard) grantLocked(key Key, hash uint32, to state, until int64) *Lease {
	l := &Lease{key: key, token: s.table.sequence.Next(), shard: s, hash: hash}
	l.until.Store(until)
	s.setLocked(l, to)
	s.index.put(l)
	s.watchLocked(l, until)
	s.counts.granted++
	return l
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
	for ended := s.expireSome(); len(ended) > 0; ended = s.expireSome() {
		for i := range ended {
			ended[i].tell()
		}
	}
}

func (s *shard) expireSome() (ended []ending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.table.now()
	for len(ended) < expireBatch {
		first, ok := s.due.first()
		if !ok || first.at > now {
			break
		}
		if e, over := s.expireLocked(first.l, now); over {
			ended = append(ended, e)
		}
	}
	s.armed = 0
	s.armLocked()
	return ended
}

// expireLocked looks at one lease whose deadline passed: renewed meanwhile, over, or remembered long enough.
func (s *shard) expireLocked(l *Lease, now int64) (e ending, over bool) {
	was := state(l.state.Load())
	if was == stateLapsed {
		return s.endLocked(l, stateLost, Outcome{}), true
	}
	// Marked first, judged then: a Renew that this look misses finds the mark.
	l.state.Store(uint32(stateLapsed))
	if until := l.until.Load(); until > now {
		l.state.Store(uint32(was))
		s.watchLocked(l, until)
		return ending{}, false
	}
	l.state.Store(uint32(was))
	s.setLocked(l, stateLapsed)
	s.counts.lapsed++
	s.watchLocked(l, now+s.table.remember())
	return s.endingLocked(l, Outcome{Kind: TenureOver}), true
}

// endingLocked collects what l's owner and waiters are to be told in its present state.
func (s *shard) endingLocked(l *Lease, out Outcome) ending {
	e := ending{own: l.own, cause: state(l.state.Load()).cause(), signal: l.signal, out: out}
	l.signal = nil
	l.announced = false
	return e
}

// endLocked takes l out of the table for good.
func (s *shard) endLocked(l *Lease, to state, out Outcome) ending {
	s.index.remove(l)
	s.due.remove(l)
	s.setLocked(l, to)
	return s.endingLocked(l, out)
}

// renew is the way of a lease that is not simply held: lapsed ones take their key again.
func (s *shard) renew(l *Lease) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch was := state(l.state.Load()); was {
	case stateHeld:
		l.until.Store(s.table.tenureEnd())
		return nil
	case stateLapsed:
		s.retakeLocked(l, stateHeld, s.table.tenureEnd())
		return nil
	default:
		return was.cause()
	}
}

// retakeLocked gives a lease that nobody took the key from its claim back.
func (s *shard) retakeLocked(l *Lease, to state, until int64) {
	s.setLocked(l, to)
	l.until.Store(until)
	l.own = nil // the old one has ended
	s.watchLocked(l, until)
	s.counts.retaken++
}

func (s *shard) announce(l *Lease) {
	s.mu.Lock()
	if state(l.state.Load()) != stateHeld {
		s.mu.Unlock()
		return
	}
	l.announced = true
	old := l.signal
	if old != nil {
		l.signal = newSignal()
		old.next = l.signal
	}
	s.mu.Unlock()
	if old != nil {
		old.send(Outcome{Kind: Announced})
	}
}

// settle ends l by its owner, if it is still in office. A lapsed or displaced lease is only noted as done.
func (s *shard) settle(l *Lease, o Outcome) error {
	s.mu.Lock()
	was := state(l.state.Load())
	if was != stateHeld && was != stateQueued {
		defer s.mu.Unlock()
		s.doneLateLocked(l, was)
		return was.cause()
	}
	e := s.endLocked(l, stateSettled, o)
	l.displaced = nil
	s.counts.settled++
	s.mu.Unlock()
	e.tell()
	return nil
}

// doneLateLocked notes that the owner of an ended lease is done with it.
func (s *shard) doneLateLocked(l *Lease, was state) {
	switch was {
	case stateLapsed:
		s.counts.settledLate++
		s.endLocked(l, stateSettled, Outcome{})
	case stateSettled:
		s.counts.settledAgain++
	default:
		s.counts.settledOvertaken++
		l.gone = true
	}
	l.displaced = s.restorable(l.displaced)
}

// displaceLocked ends whoever has the key by a newer claim. l may be nil.
func (s *shard) displaceLocked(l *Lease) (e ending) {
	if l == nil {
		return ending{}
	}
	was := state(l.state.Load())
	l.displaced = s.restorable(l.displaced)
	e = s.endLocked(l, stateSuperseded, Outcome{Kind: Superseded})
	if was.claims() {
		s.counts.superseded++
	}
	return e
}

// restorable returns the newest of a chain of displaced leases whose owner still wants it.
func (s *shard) restorable(l *Lease) *Lease {
	for l != nil && l.gone {
		l = l.displaced
	}
	return l
}

// forgetBefore makes sure that no rollback of l brings back a lease with a token below token. l may be nil.
func (l *Lease) forgetBefore(token uint64) {
	for l != nil && l.displaced != nil {
		if l.displaced.token < token {
			l.displaced = nil // what it displaced is older still
		}
		l = l.displaced
	}
}

// rollback ends l if it is still its own and puts the one it displaced back.
func (s *shard) rollback(l *Lease) error {
	s.mu.Lock()
	was := state(l.state.Load())
	if !was.claims() && was != stateLapsed {
		defer s.mu.Unlock()
		l.gone = true
		s.counts.rollbackRefused++
		return was.cause()
	}
	e := s.endLocked(l, stateSettled, Outcome{Kind: Abandoned})
	if old := s.restorable(l.displaced); old != nil {
		s.restoreLocked(old)
	}
	l.displaced = nil
	s.counts.rolledBack++
	s.mu.Unlock()
	e.tell()
	return nil
}

// restoreLocked brings a displaced lease back: it holds its key, or, if its time is over, may commit.
func (s *shard) restoreLocked(l *Lease) {
	s.index.put(l)
	if until := l.until.Load(); until > s.table.now() {
		s.retakeLocked(l, l.claimState(), until)
		return
	}
	s.setLocked(l, stateLapsed)
	s.watchLocked(l, s.table.now()+s.table.remember())
}
