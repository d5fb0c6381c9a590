package fill

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// Errors of leases. Contexts of leases end with one of them as cause.
var (
	// ErrBusy is returned when somebody else holds the key or has it queued.
	ErrBusy = errors.New("fill: key is held")
	// ErrClosed is returned when the keeper is closed.
	ErrClosed = errors.New("fill: keeper closed")
	// ErrSuperseded is returned when a newer claim took the key, or an invalidation the right to commit.
	ErrSuperseded = errors.New("fill: superseded by a newer claim")
	// ErrLeaseLost is returned when the tenure was over and somebody newer took the key, or when the keeper lost the claim.
	ErrLeaseLost = errors.New("fill: lease lost")
	// ErrTenureOver is the cause of a context whose lease made no progress for a tenure.
	ErrTenureOver = errors.New("fill: tenure over")
	// ErrSettled is returned when the lease has been settled or rolled back by its owner.
	ErrSettled = errors.New("fill: lease settled")
)

// state is where a lease is in its life. Written under the shard's mutex, read anywhere.
type state uint32

const (
	stateNone       state = iota
	stateQueued           // claims the key, its fill has not started
	stateHeld             // holds the key
	stateLapsed           // the tenure is over and nobody newer came: the key is free, a late result may be committed
	stateSettled          // ended by its owner
	stateSuperseded       // displaced; a rollback of the newer claim undoes it
	stateLost             // lapsed, and somebody newer came
	stateClosed           // ended by Close

	// Only with a Remote.
	stateTaking    // reserved in the table, being taken from the Remote
	stateReleasing // its owner is done with it, being given back to the Remote
	stateForeign   // another process has the key; this is the place of those who wait for it
)

// claims tells whether nobody else can have the key.
func (s state) claims() bool {
	switch s {
	case stateQueued, stateHeld, stateTaking, stateReleasing, stateForeign:
		return true
	default:
		return false
	}
}

// cause is what the owner of a lease in this state is told; nil if it may go on.
func (s state) cause() error {
	switch s {
	case stateQueued, stateHeld, stateTaking:
		return nil
	case stateLapsed:
		return ErrTenureOver
	case stateSuperseded:
		return ErrSuperseded
	case stateClosed:
		return ErrClosed
	case stateSettled, stateReleasing:
		return ErrSettled
	default:
		return ErrLeaseLost
	}
}

// Lease is the right to fill a key, and to commit what was filled. It belongs to one owner, who ends it with Settle. Nothing
// else can: there is no release by key. Safe for concurrent use.
type Lease struct {
	// until is when the tenure ends, in the table's time; Renew moves it without the mutex. Read with end, written with setEnd: not an atomic type, because
	// what is set before the lease is published needs no barrier.
	until int64
	// stateWord is a state, read anywhere, written under the mutex. Read with is, written with mark.
	stateWord uint32
	hash      uint32

	key   Key
	token uint64
	shard *shard

	// Guarded by shard.mu.
	place     int32 // in the heap of deadlines, from 1, or among the fresh of a rush, from −1; 0: in neither
	queued    bool  // made by Queue and not started
	announced bool  // Announce was called
	ties      *ties // see tied; set before the lease is given out if there is a Remote
}

func (l *Lease) is() state {
	return state(atomic.LoadUint32(&l.stateWord))
}

func (l *Lease) mark(s state) {
	atomic.StoreUint32(&l.stateWord, uint32(s))
}

func (l *Lease) end() int64 {
	return atomic.LoadInt64(&l.until)
}

func (l *Lease) setEnd(at int64) {
	atomic.StoreInt64(&l.until, at)
}

// ties are what a lease is connected to. Most leases of a table under load have nobody waiting and nobody displaced, so that these are
// apart. Guarded by shard.mu.
type ties struct {
	signal    *signal // what waiters wait for; nil while there were none
	own       *ownCtx // nil until somebody asked for the context
	grip      Grip    // set before the lease is given out, nil without a Remote
	displaced *Lease  // whom this lease took the key from
	gone      bool    // the owner of this displaced lease is done with it: no rollback brings it back
	undone    bool    // the owner of this displaced lease has rolled it back: a rollback goes past it
	robbed    bool    // the remote claim was lost while it was being taken
}

// seen returns l's ties to look at. Called with the shard's mutex held.
func (l *Lease) seen() ties {
	if l.ties == nil {
		return ties{}
	}
	return *l.ties
}

// tied returns l's ties to change. Called with the shard's mutex held.
func (l *Lease) tied() *ties {
	if l.ties == nil {
		l.ties = &ties{}
	}
	return l.ties
}

// setDisplaced notes whom l took its key from; nil is nobody. Called with the shard's mutex held.
func (l *Lease) setDisplaced(old *Lease) {
	if old != nil || l.ties != nil {
		l.tied().displaced = old
	}
}

// ownCtx is a lease's context, made on demand.
type ownCtx struct {
	context.Context
	cancel context.CancelCauseFunc
}

// claimed tells whether the lease keeps everybody else from the key. Called with the shard's mutex held.
func (l *Lease) claimed() bool {
	return l.is().claims()
}

// claimState is the state in which l has its claim. Called with the shard's mutex held.
func (l *Lease) claimState() state {
	if l.queued {
		return stateQueued
	}
	return stateHeld
}

// Key returns the key that the lease is for.
func (l *Lease) Key() Key {
	return l.key
}

// Token returns the lease's number. Of two leases of a key the newer one has the higher token; a store compares it to keep older
// results from replacing newer ones.
func (l *Lease) Token() uint64 {
	return l.token
}

// Context ends when the lease does. Its cause is ErrTenureOver, ErrSuperseded, ErrLeaseLost, ErrClosed or ErrSettled. A lease that
// lost its key for lack of progress and took it again (see Renew) has a new context from then on.
func (l *Lease) Context() context.Context {
	l.shard.mu.Lock()
	defer l.shard.mu.Unlock()
	t := l.tied()
	if t.own == nil {
		t.own = newOwnCtx(l.is().cause())
	}
	return t.own
}

func newOwnCtx(ended error) *ownCtx {
	ctx, cancel := context.WithCancelCause(context.Background())
	if ended != nil {
		cancel(ended)
	}
	return &ownCtx{ctx, cancel}
}

// Renew reports progress: the tenure starts anew now. It costs a reading of the clock, so it may be called for every piece of a body.
//
// A lease whose tenure is over takes its key again if nobody newer has had it since. Otherwise Renew returns ErrSuperseded,
// ErrLeaseLost, ErrSettled or ErrClosed, and the lease stays ended.
func (l *Lease) Renew() error {
	if l.is() == stateHeld {
		// The store comes before the second look, as expiry first marks the lease and then looks at until: one of the two sees the other.
		l.setEnd(l.shard.table.tenureEnd())
		if l.is() == stateHeld {
			return nil
		}
	}
	return l.shard.renew(l)
}

// Announce wakes the waiters that are present with Announced: there is something to see, the head of a response for example. The lease goes on.
// It may be called more than once; on an ended lease it does nothing.
func (l *Lease) Announce() {
	l.shard.announce(l)
}

// CheckCommit returns nil if what this lease fetched may be committed. A tenure that is over does not forbid it while nobody newer
// has had the key: a late result is not wasted. Otherwise it returns ErrSuperseded, ErrLeaseLost, ErrSettled or ErrClosed.
//
// With a Remote it looks at the remote claim, and an error in doing so is returned.
//
// Between this check and the commit a newer holder can still come and commit; the store compares tokens to order the two.
func (l *Lease) CheckCommit() error {
	if s := l.is(); s != stateLapsed && s.cause() != nil {
		return s.cause()
	}
	if l.shard.table.remote == nil {
		return nil
	}
	err := l.ties.grip.Check()
	if errors.Is(err, ErrLeaseLost) {
		l.shard.lose(l)
	}
	return err
}

// Settle ends the lease and wakes all who wait, with outcome o. It counts once: it returns false and changes nothing for anybody
// else if the lease was settled before, or is over or displaced; the keeper counts those. An o that is none of Stored, NotShareable, Failed and
// Abandoned counts as Abandoned.
func (l *Lease) Settle(o Outcome) bool {
	counted, _ := l.shard.settle(l, o)
	return counted
}

// Finish is Settle for owners who want to know why it did not count: the error is ErrSettled, ErrTenureOver, ErrSuperseded, ErrLeaseLost
// or ErrClosed, joined with o.Err so that neither hides the other. It is also not nil if a remote claim could not be given back; others take it when it is stale.
func (l *Lease) Finish(o Outcome) error {
	if _, err := l.shard.settle(l, o); err != nil {
		return errors.Join(fmt.Errorf("settle %s: %w", l.key, err), o.Err)
	}
	return nil
}

// Rollback undoes the taking of the key, for an owner whose start failed: waiters are woken with Abandoned, and the lease from which this one took the key has
// its right to commit again, and its key if its tenure is not over. Its context stays ended; Context returns a new one.
//
// Only a lease that still has its claim can be rolled back. Otherwise nothing changes for anybody else, and the error says what became of it.
func (l *Lease) Rollback() error {
	if err := l.shard.rollback(l); err != nil {
		return fmt.Errorf("fill: roll back claim on %s: %w", l.key, err)
	}
	return nil
}
