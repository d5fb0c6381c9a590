// Package filltest is the contract of lease keepers as tests: what fill.Table promises to goroutines, any keeper promises, and what a keeper of
// several processes promises between them.
//
// # Usage
//
//	filltest.Run(t, func(t *testing.T, o fill.Options) filltest.Keeper { return fill.New(o) })
//	filltest.RunPair(t, func(t *testing.T, o fill.Options) (a, b filltest.Keeper) { … two keepers that share claims … })
//
// The tests run in synctest bubbles, in fake time; a keeper must be opened and closed inside. It may do file I/O there, but not wait on
// sockets.
package filltest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swrproxy/swrproxy/fill"
)

// Tenure is the tenure that the suite's keepers get.
const Tenure = 10 * time.Second

// Leaser is the part of a keeper that grants leases.
type Leaser interface {
	TryAcquire(key fill.Key) (*fill.Lease, error)
	Join(key fill.Key) (*fill.Lease, *fill.Waiter, error)
	Supersede(key fill.Key) (*fill.Lease, error)
	Close(ctx context.Context) error
}

// Queuer is the part of a keeper that lets fills queue.
type Queuer interface {
	Queue(key fill.Key, delay time.Duration) (*fill.Claim, error)
	QueueNewer(key fill.Key, delay time.Duration) (*fill.Claim, error)
}

// Keeper is what the suite tests.
type Keeper interface {
	Leaser
	Queuer
	Displace(key fill.Key) bool
	DisplaceBefore(key fill.Key, token uint64) bool
	Stats() fill.Stats
}

// Open makes a keeper with the given options. Run closes it.
type Open func(t *testing.T, o fill.Options) Keeper

// rig is one test's keeper.
type rig struct {
	*testing.T
	k   Keeper
	key fill.Key
}

// Run tests what a keeper promises to the goroutines of one process.
func Run(t *testing.T, open Open) {
	for name, test := range map[string]func(*rig){
		"settle frees the key":                    settleFrees,
		"keys of two spaces never meet":           spacesApart,
		"tenure frees the key with nobody there":  tenureFrees,
		"progress moves the tenure":               renewMoves,
		"a lapsed key is taken again by progress": renewRetakes,
		"late and second settles touch nobody":    settlesCounted,
		"waiters share a failure":                 failureShared,
		"a lost holder has one successor":         oneSuccessor,
		"supersede displaces":                     supersedes,
		"displace takes the right to commit":      displaces,
		"displace spares what began later":        displacesBefore,
		"announce wakes those present":            announces,
		"a waiter's limit and context":            waiterLimits,
		"a key won too late is given back":        wonTooLate,
		"rollback frees the key":                  rollbackFrees,
		"rollback restores the displaced":         rollbackRestores,
		"rollback restores what may commit":       rollbackRestoresLapsed,
		"rollback skips owners who are gone":      rollbackSkipsGone,
		"rollback of a lost claim is refused":     rollbackRefused,
		"a queued claim holds the key":            queueHolds,
		"a displaced claim does not start":        queueDisplaced,
		"a lapsed claim starts if nobody came":    queueLapsed,
		"an older claim displaces nobody":         queueOlder,
		"a claim waits for its delay":             queueWaits,
		"close rejects what is queued":            queueClosed,
		"close ends everything":                   closeEnds,
		"two takers of a free place":              func(r *rig) { race(r.T, r.k, r.k) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &rig{T: t, k: open(t, fill.Options{Tenure: Tenure}), key: fill.Key{Space: "app", ID: "https://example.org/"}}
				test(r)
				closed(t, r.k)
			})
		})
	}
}

// closed closes a keeper and looks whether anything is left.
func closed(t *testing.T, k Keeper) {
	t.Helper()
	if err := k.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
	synctest.Wait()
	gauges(t, k, 0, 0, 0)
}

// gauges compares the gauges with the truth.
func gauges(t *testing.T, k Keeper, held, queued, waiting int) {
	t.Helper()
	if st := k.Stats(); st.Held != held || st.Queued != queued || st.Waiting != waiting {
		t.Errorf("gauges: %d held, %d queued, %d waiting; want %d, %d, %d", st.Held, st.Queued, st.Waiting, held, queued, waiting)
	}
}

func (r *rig) acquire() *fill.Lease {
	r.Helper()
	return acquire(r.T, r.k, r.key)
}

func acquire(t *testing.T, k Keeper, key fill.Key) *fill.Lease {
	t.Helper()
	l, err := k.TryAcquire(key)
	if err != nil {
		t.Fatalf("TryAcquire: %v", err)
	}
	return l
}

func (r *rig) supersede() *fill.Lease {
	r.Helper()
	l, err := r.k.Supersede(r.key)
	if err != nil {
		r.Fatalf("Supersede: %v", err)
	}
	return l
}

func (r *rig) wait() *fill.Waiter {
	r.Helper()
	return wait(r.T, r.k, r.key)
}

func wait(t *testing.T, k Keeper, key fill.Key) *fill.Waiter {
	t.Helper()
	l, w, err := k.Join(key)
	if l != nil || err != nil {
		t.Fatalf("Join: %v, %v, want a waiter", l, err)
	}
	return w
}

func (r *rig) queue(delay time.Duration) *fill.Claim {
	r.Helper()
	c, err := r.k.Queue(r.key, delay)
	if err != nil {
		r.Fatalf("Queue: %v", err)
	}
	return c
}

func busy(t *testing.T, k Keeper, key fill.Key) {
	t.Helper()
	if l, err := k.TryAcquire(key); !errors.Is(err, fill.ErrBusy) {
		t.Errorf("TryAcquire: %v, %v, want ErrBusy", l, err)
	}
}

func cause(t *testing.T, ctx context.Context, want error) {
	t.Helper()
	if got := context.Cause(ctx); !errors.Is(got, want) {
		t.Errorf("cause of the lease's context: %v, want %v", got, want)
	}
}

func outcome(t *testing.T, w *fill.Waiter, want fill.Kind) {
	t.Helper()
	out, err := w.Wait(t.Context(), time.Minute)
	if err != nil || out.Kind != want {
		t.Errorf("Wait: %v, %v, want %v", out.Kind, err, want)
	}
}

// mayCommit wants CheckCommit to say want, nil included.
func mayCommit(t *testing.T, l *fill.Lease, want error) {
	t.Helper()
	if err := l.CheckCommit(); !errors.Is(err, want) {
		t.Errorf("CheckCommit: %v, want %v", err, want)
	}
}

// settle wants the settle to count.
func settle(t *testing.T, l *fill.Lease, k fill.Kind) {
	t.Helper()
	if err := l.Finish(fill.Outcome{Kind: k}); err != nil {
		t.Errorf("Finish: %v", err)
	}
}

// settleFails wants the settle not to count, for that reason.
func settleFails(t *testing.T, l *fill.Lease, want error) {
	t.Helper()
	mine := errors.New("mine")
	err := l.Finish(fill.Outcome{Kind: fill.Failed, Err: mine})
	if !errors.Is(err, want) || !errors.Is(err, mine) {
		t.Errorf("Finish: %v, want %v beside the owner's own error", err, want)
	}
}
