package fill

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrStarted is returned when a claim is started twice.
var ErrStarted = errors.New("fill: claim has been started")

// Claim holds a key for a fill that starts later: after a pause, or when a place is free. It is kept from the moment it is made for as long as
// its delay lasts plus the tenure. Safe for concurrent use.
type Claim struct {
	l *Lease
}

// Queue claims key for a fill that starts after delay. ErrBusy if somebody has the key, ErrClosed after Close. The owner calls Start when
// the time has come, or Rollback. The table does not wait for the delay: Claim.Wait does.
func (t *Table) Queue(key Key, delay time.Duration) (*Claim, error) {
	s, hash := t.locate(key)
	s.mu.Lock()
	old, err := s.freeLocked(key, hash)
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	l := s.takeLocked(old, key, hash, stateQueued, t.claimEnd(delay))
	l.queued = true
	s.mu.Unlock()
	return asClaim(s.granted(l, false, stateQueued))
}

// QueueNewer is Queue for a claim that displaces whoever has the key, as Supersede does.
func (t *Table) QueueNewer(key Key, delay time.Duration) (*Claim, error) {
	return asClaim(t.supersede(key, stateQueued, t.claimEnd(delay)))
}

func asClaim(l *Lease, err error) (*Claim, error) {
	if err != nil {
		return nil, err
	}
	return &Claim{l}, nil
}

// claimEnd is until when a claim that starts after delay is kept.
func (t *Table) claimEnd(delay time.Duration) int64 {
	end := t.tenureEnd()
	if end != never {
		end += int64(max(delay, 0))
	}
	return end
}

// Key returns the key that is claimed.
func (c *Claim) Key() Key {
	return c.l.key
}

// Token returns the claim's number, which its lease has too. It orders claims by when they were made, not by when they start.
func (c *Claim) Token() uint64 {
	return c.l.token
}

// Context ends when the claim does, with the causes of Lease.Context.
func (c *Claim) Context() context.Context {
	return c.l.Context()
}

// Start turns the claim into a lease whose tenure starts now. A claim that merely lapsed takes its key again. One that was displaced by a newer
// claim, or lapsed and was followed by a newer holder, gets ErrSuperseded, and its fill must not run. ErrClosed after Close, ErrSettled after Rollback,
// ErrStarted the second time.
func (c *Claim) Start() (*Lease, error) {
	_ = c.l.CheckCommit() // with a Remote: a claim displaced elsewhere is found out now
	if err := c.l.shard.start(c.l); err != nil {
		return nil, fmt.Errorf("start queued fill of %s: %w", c.l.key, err)
	}
	return c.l, nil
}

// start is Claim.Start.
func (s *shard) start(l *Lease) error {
	s.mu.Lock()
	was := l.is()
	if was == stateLapsed && l.queued && s.table.remote != nil {
		l.queued = false
		s.setLocked(l, stateTaking)
		s.due.remove(l)
		s.mu.Unlock()
		if err := s.retake(l, stateHeld); !errors.Is(err, ErrLeaseLost) {
			return err
		}
		return ErrSuperseded
	}
	defer s.mu.Unlock()
	switch {
	case !l.queued:
		return ErrStarted
	case was == stateQueued:
		s.setLocked(l, stateHeld)
		l.setEnd(s.table.tenureEnd())
		s.watchLocked(l, l.end())
	case was == stateLapsed:
		s.retakeLocked(l, stateHeld, s.table.tenureEnd())
	default:
		l.tied().gone = true
		return startError(was)
	}
	l.queued = false
	return nil
}

// startError is what a claim that may not start is told.
func startError(was state) error {
	if was == stateLost {
		return ErrSuperseded
	}
	return was.cause()
}

// Wait sleeps until delay has passed and starts the claim. It ends early with the cause if the claim is displaced or the keeper closes, and
// with ctx's error, the claim rolled back, if ctx ends. A claim that lapses meanwhile is no reason to end.
func (c *Claim) Wait(ctx context.Context, delay time.Duration) (*Lease, error) {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	ended := c.Context().Done()
	for {
		select {
		case <-timer.C:
			return c.Start()
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), c.Rollback())
		case <-ended:
			if !errors.Is(context.Cause(c.Context()), ErrTenureOver) {
				return c.Start()
			}
			ended = nil
		}
	}
}

// Rollback gives the claim up; see Lease.Rollback.
func (c *Claim) Rollback() error {
	return c.l.Rollback()
}
