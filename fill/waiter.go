package fill

import (
	"context"
	"errors"
	"time"
)

// signal is one wake-up of all waiters of a lease. A lease that announces something has a chain of them.
type signal struct {
	done chan struct{}
	// out and next are written before done is closed.
	out  Outcome
	next *signal // nil after the lease's end
}

func newSignal() *signal {
	return &signal{done: make(chan struct{})}
}

func (s *signal) send(out Outcome) {
	s.out = out
	close(s.done)
}

// Waiter is one reader's place with the holder of a key. It is woken when the holder has something to show and when the lease ends; being woken
// means look again, never that the key is the waiter's. A waiter cannot end anybody's lease. Not safe for concurrent use.
type Waiter struct {
	shard  *shard
	signal *signal
	late   bool
	over   bool
	out    Outcome // once over
}

// Join takes key if it is free, or gets a place with the one who has it: exactly one of lease and waiter is not nil. There is no
// moment between the two in which the holder could end unnoticed. It never blocks, but for the I/O of a Remote; the error is ErrClosed or one of the Remote.
//
// A waiter for another process's claim is woken with Abandoned and ErrElsewhere when that claim is over.
func (t *Table) Join(key Key) (*Lease, *Waiter, error) {
	s, hash := t.locate(key)
	for {
		l, w, err := s.join(key, hash)
		if l == nil {
			return nil, w, err
		}
		if l, err = s.granted(l, false, stateHeld); !errors.Is(err, ErrBusy) {
			return l, nil, err
		}
		// Another process has the key, or somebody here displaced this reservation: there is somebody to wait for now.
	}
}

func (s *shard) join(key Key, hash uint32) (*Lease, *Waiter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, ErrClosed
	}
	old := s.index.get(key, hash)
	if old != nil && old.claimed() {
		return nil, s.waitLocked(old), nil
	}
	return s.takeLocked(old, key, hash, stateHeld, fromNow), nil, nil
}

func (s *shard) waitLocked(l *Lease) *Waiter {
	t := l.tied()
	if t.signal == nil {
		t.signal = newSignal()
	}
	s.waiting.Add(1)
	return &Waiter{shard: s, signal: t.signal, late: l.announced}
}

// Late tells whether the holder had announced something before this waiter joined. A late waiter should look before it waits: it is
// not woken for what it came too late for.
func (w *Waiter) Late() bool {
	return w.late
}

// Wait blocks until the waiter is woken, and returns what for. After Announced it may be called again: the waiter keeps its place until the
// lease ends. If limit passes first, the outcome is WaitOver; 0 and less mean no limit. If ctx ends first, its error is returned.
// With any outcome but Announced, and with an error, the place is given back, and Wait returns the same outcome again.
func (w *Waiter) Wait(ctx context.Context, limit time.Duration) (Outcome, error) {
	if w.over {
		return w.out, nil
	}
	select {
	case <-w.signal.done:
		return w.woken(), nil
	default:
	}
	var limitC <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		limitC = timer.C
	}
	select {
	case <-w.signal.done:
		return w.woken(), nil
	case <-limitC:
		return w.leave(Outcome{Kind: WaitOver}), nil
	case <-ctx.Done():
		return w.leave(Outcome{Kind: WaitOver}), ctx.Err()
	}
}

// woken takes the signal that was sent.
func (w *Waiter) woken() Outcome {
	out := w.signal.out
	if out.Kind.final() {
		return w.leave(out)
	}
	w.signal = w.signal.next
	return out
}

func (w *Waiter) leave(out Outcome) Outcome {
	w.over, w.out = true, out
	w.shard.waiting.Add(-1)
	return out
}

// Cancel gives the place back. It does nothing if that has happened already.
func (w *Waiter) Cancel() {
	if !w.over {
		w.leave(Outcome{Kind: WaitOver})
	}
}
