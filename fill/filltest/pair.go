package filltest

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swrproxy/swrproxy/fill"
)

// OpenPair makes two keepers that share claims as two processes would. RunPair closes them. Their Poll is to be o.Poll.
type OpenPair func(t *testing.T, o fill.Options) (a, b Keeper)

// Poll is the polling interval that RunPair's keepers get.
const Poll = 50 * time.Millisecond

// pair is one test's two keepers.
type pair struct {
	*testing.T
	a, b Keeper
	key  fill.Key
}

// RunPair tests what a keeper promises between processes.
func RunPair(t *testing.T, open OpenPair) {
	for name, test := range map[string]func(*pair){
		"one holder between two":              pairExcludes,
		"tokens grow across":                  pairTokens,
		"a waiter elsewhere takes over":       pairWaiter,
		"one successor of a crowd elsewhere":  pairCrowd,
		"supersede reaches over":              pairSupersede,
		"rollback gives back across":          pairRollback,
		"rollback goes past undone claims":    pairRollbackPast,
		"a lapsed claim is anybody's":         pairLapse,
		"a lapsed claim may commit till then": pairLateCommit,
		"a queued claim holds across":         pairQueue,
		"close gives claims back":             pairClose,
		"two takers of a free place":          func(p *pair) { race(p.T, p.a, p.b) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := open(t, fill.Options{Tenure: Tenure, Poll: Poll})
				test(&pair{T: t, a: a, b: b, key: fill.Key{Space: "app", ID: "https://example.org/"}})
				closed(t, a)
				closed(t, b)
			})
		})
	}
}

func pairExcludes(p *pair) {
	l := acquire(p.T, p.a, p.key)
	busy(p.T, p.b, p.key)
	busy(p.T, p.b, p.key)
	gauges(p.T, p.b, 0, 0, 0)
	settle(p.T, l, fill.Stored)
	time.Sleep(Poll)
	synctest.Wait()
	settle(p.T, acquire(p.T, p.b, p.key), fill.Stored)
}

func pairTokens(p *pair) {
	var last uint64
	for range 10 {
		for _, k := range []Keeper{p.a, p.b} {
			l := acquire(p.T, k, p.key)
			if l.Token() <= last {
				p.Fatalf("token %d after %d", l.Token(), last)
			}
			last = l.Token()
			settle(p.T, l, fill.Stored)
		}
	}
}

func pairWaiter(p *pair) {
	l := acquire(p.T, p.a, p.key)
	w := wait(p.T, p.b, p.key)
	time.AfterFunc(Tenure/2, func() { settle(p.T, l, fill.Stored) })
	began := time.Now()
	out, err := w.Wait(p.Context(), time.Minute)
	if !errors.Is(out.Err, fill.ErrElsewhere) || err != nil || !out.Kind.Lost() {
		p.Errorf("Wait: %v, %v, want a loss elsewhere", out, err)
	}
	if took := time.Since(began); took < Tenure/2 || took > Tenure/2+Poll {
		p.Errorf("woken after %v, want %v and one poll at most", took, Tenure/2)
	}
	settle(p.T, acquire(p.T, p.b, p.key), fill.Stored)
}

func pairCrowd(p *pair) {
	l := acquire(p.T, p.a, p.key)
	r := &rig{T: p.T, k: p.b, key: p.key}
	var leaders atomic.Int64
	wg := r.crowd(20, func(fill.Outcome) {
		if next, w, err := p.b.Join(p.key); next != nil {
			leaders.Add(1)
			time.Sleep(time.Second)
			settle(p.T, next, fill.Stored)
		} else if err != nil {
			p.Errorf("Join: %v", err)
		} else {
			outcome(p.T, w, fill.Stored)
		}
	})
	settle(p.T, l, fill.Stored)
	wg.Wait()
	if leaders.Load() != 1 {
		p.Errorf("%d successors, want 1", leaders.Load())
	}
}

func pairSupersede(p *pair) {
	old := acquire(p.T, p.a, p.key)
	newer, err := p.b.Supersede(p.key)
	if err != nil {
		p.Fatalf("Supersede: %v", err)
	}
	if newer.Token() <= old.Token() {
		p.Errorf("token %d superseded %d", newer.Token(), old.Token())
	}
	mayCommit(p.T, old, fill.ErrLeaseLost)
	cause(p.T, old.Context(), fill.ErrLeaseLost)
	settleFails(p.T, old, fill.ErrLeaseLost)
	mayCommit(p.T, newer, nil)
	settle(p.T, newer, fill.Stored)
}

func pairRollback(p *pair) {
	old := acquire(p.T, p.a, p.key)
	newer, err := p.b.Supersede(p.key)
	if err != nil {
		p.Fatalf("Supersede: %v", err)
	}
	if err := newer.Rollback(); err != nil {
		p.Fatalf("Rollback: %v", err)
	}
	mayCommit(p.T, old, nil)
	busy(p.T, p.b, p.key)
	settle(p.T, old, fill.Stored)

	old = acquire(p.T, p.a, p.key)
	if newer, err = p.b.Supersede(p.key); err != nil {
		p.Fatalf("Supersede: %v", err)
	}
	newest, err := p.a.Supersede(p.key)
	if err != nil {
		p.Fatalf("Supersede: %v", err)
	}
	if err := newer.Rollback(); !errors.Is(err, fill.ErrLeaseLost) {
		p.Errorf("Rollback of a claim that is not its own any more: %v, want ErrLeaseLost", err)
	}
	mayCommit(p.T, old, fill.ErrSuperseded)
	settle(p.T, newest, fill.Stored)
}

// Schedule: 1. a takes the key; 2. b displaces it unnoticed; 3. a's own two newer claims are both rolled back. It is b's key then, not a's first claim's.
func pairRollbackPast(p *pair) {
	first := acquire(p.T, p.a, p.key)
	between, err := p.b.Supersede(p.key)
	if err != nil {
		p.Fatalf("Supersede: %v", err)
	}
	var newer [2]*fill.Lease
	for i := range newer {
		if newer[i], err = p.a.Supersede(p.key); err != nil {
			p.Fatalf("Supersede: %v", err)
		}
	}
	if err := newer[0].Rollback(); !errors.Is(err, fill.ErrSuperseded) {
		p.Errorf("Rollback of the displaced: %v", err)
	}
	if err := newer[1].Rollback(); err != nil {
		p.Errorf("Rollback: %v", err)
	}
	mayCommit(p.T, first, fill.ErrLeaseLost)
	mayCommit(p.T, between, nil)
	settle(p.T, between, fill.Stored)
}

func pairLapse(p *pair) {
	old := acquire(p.T, p.a, p.key)
	time.Sleep(Tenure)
	synctest.Wait()
	next := acquire(p.T, p.b, p.key)
	mayCommit(p.T, old, fill.ErrLeaseLost)
	settleFails(p.T, old, fill.ErrLeaseLost)
	mayCommit(p.T, next, nil)
	settle(p.T, next, fill.Stored)
}

func pairLateCommit(p *pair) {
	old := acquire(p.T, p.a, p.key)
	time.Sleep(2 * Tenure)
	mayCommit(p.T, old, nil)
	if err := old.Renew(); err != nil {
		p.Errorf("Renew: %v", err)
	}
	busy(p.T, p.b, p.key)
	time.Sleep(2 * Tenure)
	settle(p.T, acquire(p.T, p.b, p.key), fill.Stored)
	mayCommit(p.T, old, fill.ErrLeaseLost) // though nobody has the key now
	if err := old.Renew(); !errors.Is(err, fill.ErrLeaseLost) {
		p.Errorf("Renew: %v, want ErrLeaseLost", err)
	}
}

func pairQueue(p *pair) {
	c, err := p.a.Queue(p.key, time.Minute)
	if err != nil {
		p.Fatalf("Queue: %v", err)
	}
	time.Sleep(30 * time.Second)
	busy(p.T, p.b, p.key)
	newer, err := p.b.QueueNewer(p.key, time.Minute)
	if err != nil {
		p.Fatalf("QueueNewer: %v", err)
	}
	if l, err := c.Start(); !errors.Is(err, fill.ErrSuperseded) {
		p.Errorf("Start of the displaced: %v, %v, want ErrSuperseded", l, err)
	}
	l, err := newer.Start()
	if err != nil {
		p.Fatalf("Start: %v", err)
	}
	settle(p.T, l, fill.Stored)
}

func pairClose(p *pair) {
	acquire(p.T, p.a, p.key)
	busy(p.T, p.b, p.key)
	if err := p.a.Close(p.Context()); err != nil {
		p.Fatal(err)
	}
	time.Sleep(Poll)
	synctest.Wait()
	settle(p.T, acquire(p.T, p.b, p.key), fill.Stored)
}
