package filltest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swrproxy/swrproxy/fill"
)

// SeedVar is the environment variable that names one seed for RunModel to run alone.
const SeedVar = "FILL_SEED"

// OpenAll makes the keepers of one schedule: one, or several that share claims.
type OpenAll func(t *testing.T, o fill.Options) []Keeper

// RunModel runs random schedules of acquire, wait, renew, announce, settle, tenure end, supersede, queue, rollback, displace, cancel and close, and checks the
// history of each:
//
//   - of the leases of a key at most the newest may commit: once a newer claim was granted, no check of an older one passes, unless the newer one was rolled back
//   - none that began before a Displace returned may commit after it
//   - a granted token is above all that were granted before the call
//   - every waiter returns
//   - no gauge and no goroutine is left
//
// Each schedule has a seed, which a failure names; SeedVar repeats it.
func RunModel(t *testing.T, schedules int, open OpenAll) {
	if seed, err := strconv.ParseUint(os.Getenv(SeedVar), 10, 64); err == nil {
		runSchedule(t, seed, open)
		return
	}
	first := rand.Uint64()
	t.Logf("seeds %d to %d", first, first+uint64(schedules)-1)
	for i := range uint64(schedules) {
		runSchedule(t, first+i, open)
	}
}

func runSchedule(t *testing.T, seed uint64, open OpenAll) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, seed, open)
		m.run()
		for _, k := range m.keepers {
			closed(t, k)
		}
		if t.Failed() {
			t.Fatalf("replay with %s=%d", SeedVar, seed)
		}
	})
}

// The size of a schedule: few keys and tenures, so that actors meet.
const (
	modelKeys   = 3
	modelActors = 6
	modelSteps  = 25
)

// model is one schedule and what is known of its history.
type model struct {
	*testing.T
	keepers []Keeper
	seed    uint64
	keys    [modelKeys]history
	// ended is closed when the schedule's keepers are about to close.
	ended context.Context
	end   context.CancelFunc
}

// history is what has happened to one key. Grants are entered after they were won and rollbacks before they are tried, so that the history
// never claims more than the truth.
type history struct {
	key    fill.Key
	mu     sync.Mutex // guards following
	grants []*grant
}

type grant struct {
	token uint64
	by    Keeper
	// undone means that a rollback may have happened, displaced that a Displace has.
	undone, displaced bool
}

func newModel(t *testing.T, seed uint64, open OpenAll) *model {
	m := &model{T: t, seed: seed, keepers: open(t, fill.Options{Tenure: Tenure, Poll: Poll})}
	m.ended, m.end = context.WithCancel(t.Context())
	for i := range m.keys {
		m.keys[i].key = fill.Key{Space: "model", ID: strconv.Itoa(i)}
	}
	return m
}

func (m *model) run() {
	defer m.end()
	var wg sync.WaitGroup
	for i := range uint64(modelActors) {
		wg.Go(func() { m.act(rand.New(rand.NewPCG(m.seed, i))) })
	}
	if rand.New(rand.NewPCG(m.seed, modelActors)).IntN(3) == 0 { // close under way
		time.Sleep(5 * Tenure)
		m.end()
		for _, k := range m.keepers {
			if err := k.Close(m.Context()); err != nil {
				m.Errorf("Close: %v", err)
			}
		}
	}
	wg.Wait()
}

// act is one actor's life.
func (m *model) act(r *rand.Rand) {
	for range modelSteps {
		h, k := &m.keys[r.IntN(modelKeys)], m.keepers[r.IntN(len(m.keepers))]
		switch r.IntN(8) {
		case 0, 1:
			before := h.newest()
			l, err := k.TryAcquire(h.key)
			m.won(r, h, k, l, before, err)
		case 2, 3, 4:
			m.joins(r, h, k)
		case 5:
			before := h.newest()
			l, err := k.Supersede(h.key)
			m.won(r, h, k, l, before, err)
		case 6:
			m.queues(r, h, k)
		case 7:
			m.displaces(h, k)
		}
		m.pause(r)
	}
}

func (m *model) pause(r *rand.Rand) {
	time.Sleep(time.Duration(r.Int64N(int64(Tenure / 2))))
}

// won enters a grant into the history and lives with the lease.
func (m *model) won(r *rand.Rand, h *history, k Keeper, l *fill.Lease, before uint64, err error) {
	if l == nil {
		if !errors.Is(err, fill.ErrBusy) && !errors.Is(err, fill.ErrClosed) {
			m.Errorf("refused: %v", err)
		}
		return
	}
	g := m.enter(h, k, l.Token(), before)
	m.hold(r, h, g, l)
}

func (m *model) enter(h *history, k Keeper, token, before uint64) *grant {
	if token <= before {
		m.Errorf("%v: token %d granted after %d", h.key, token, before)
	}
	g := &grant{token: token, by: k}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.grants = append(h.grants, g)
	return g
}

func (h *history) newest() (token uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, g := range h.grants {
		token = max(token, g.token)
	}
	return token
}

// hold works under a lease, and ends it in one of the right or wrong ways.
func (m *model) hold(r *rand.Rand, h *history, g *grant, l *fill.Lease) {
	for range r.IntN(4) {
		m.pause(r)
		_ = l.Renew()
		m.check(h, g, l)
		if r.IntN(3) == 0 {
			l.Announce()
		}
	}
	if r.IntN(4) == 0 { // hangs
		time.Sleep(Tenure + time.Duration(r.Int64N(int64(Tenure))))
	}
	m.check(h, g, l)
	switch r.IntN(8) {
	case 0:
		h.undo(g)
		_ = l.Rollback()
	case 1: // forgets its lease
	case 2:
		l.Settle(fill.Outcome{Kind: fill.Failed})
		l.Settle(fill.Outcome{Kind: fill.Stored}) // and again
	default:
		l.Settle(fill.Outcome{Kind: fill.Kind(r.IntN(9))})
	}
	m.check(h, g, l)
}

// check asks whether a lease may commit and compares the answer with the history before.
func (m *model) check(h *history, g *grant, l *fill.Lease) {
	before := h.against(g)
	if l.CheckCommit() == nil && before != "" && !h.undoneSince(g, before) {
		m.Errorf("%v: token %d may commit, though %s", h.key, g.token, before)
	}
}

// against returns why g may not commit as far as the history knows, "" if it may.
func (h *history) against(g *grant) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if g.displaced {
		return "it was displaced"
	}
	for _, other := range h.grants {
		if other.token > g.token && !other.undone {
			return fmt.Sprintf("token %d was granted", other.token)
		}
	}
	return ""
}

// undoneSince tells whether the reason has gone meanwhile.
func (h *history) undoneSince(g *grant, reason string) bool {
	return h.against(g) != reason
}

func (h *history) undo(g *grant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g.undone = true
}

// joins takes the key or waits for it, for as long as it takes, for a while, or until it is cancelled.
func (m *model) joins(r *rand.Rand, h *history, k Keeper) {
	before := h.newest()
	l, w, err := k.Join(h.key)
	if w == nil {
		m.won(r, h, k, l, before, err)
		return
	}
	defer w.Cancel()
	ctx, limit := context.Background(), time.Duration(0) // every waiter returns
	switch r.IntN(4) {
	case 0:
		limit = time.Duration(r.Int64N(int64(2 * Tenure)))
	case 1:
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.Int64N(int64(Tenure))))
		defer cancel()
	case 2:
		return
	}
	for out := (fill.Outcome{Kind: fill.Announced}); out.Kind == fill.Announced && err == nil; {
		out, err = w.Wait(ctx, limit)
		if err == nil && out.Kind == fill.Unknown {
			m.Errorf("%v: woken with %v", h.key, out.Kind)
		}
	}
}

// queues claims the key for later.
func (m *model) queues(r *rand.Rand, h *history, k Keeper) {
	take := k.Queue
	if r.IntN(2) == 0 {
		take = k.QueueNewer
	}
	delay := time.Duration(r.Int64N(int64(Tenure)))
	before := h.newest()
	c, err := take(h.key, delay)
	if err != nil {
		m.won(r, h, k, nil, before, err)
		return
	}
	g := m.enter(h, k, c.Token(), before)
	if r.IntN(6) == 0 {
		h.undo(g)
		_ = c.Rollback()
		return
	}
	if r.IntN(3) == 0 {
		delay += Tenure + time.Second // its place comes too late
	}
	time.Sleep(delay)
	reason := h.against(g)
	l, err := c.Start()
	switch {
	case err == nil && reason != "" && !h.undoneSince(g, reason):
		m.Errorf("%v: the claim of token %d started, though %s", h.key, g.token, reason)
	case err == nil:
		m.hold(r, h, g, l)
	case !errors.Is(err, fill.ErrSuperseded) && !errors.Is(err, fill.ErrClosed):
		m.Errorf("%v: start of token %d: %v", h.key, g.token, err)
	}
}

// displaces takes the right to commit from all leases of one keeper that have been granted so far.
func (m *model) displaces(h *history, k Keeper) {
	h.mu.Lock()
	there := len(h.grants)
	h.mu.Unlock()
	k.Displace(h.key)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, g := range h.grants[:there] {
		g.displaced = g.displaced || g.by == k
	}
}
