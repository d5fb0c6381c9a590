package harness

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/swrproxy/swrproxy/fill"
)

// lock is what the harness drives: something that grants one key to one caller at a time.
type lock interface {
	// acquire waits for key and returns a release, and how many attempts it took. release tells whether it counted, that is whether it freed the key.
	acquire(ctx context.Context, key string) (release func() bool, attempts int, err error)
	// try takes key if it is free.
	try(key string) (release func() bool, ok bool)
	close(ctx context.Context) error
}

// keeper is the part of a lease keeper that the harness needs.
type keeper interface {
	TryAcquire(key fill.Key) (*fill.Lease, error)
	Join(key fill.Key) (*fill.Lease, *fill.Waiter, error)
	Close(ctx context.Context) error
}

// leases makes a lock of a keeper.
type leases struct {
	k keeper
}

func (s leases) acquire(ctx context.Context, key string) (release func() bool, attempts int, err error) {
	for attempts = 1; ; attempts++ {
		l, w, err := s.k.Join(fill.Key{Space: "harness", ID: key})
		if err != nil {
			return nil, attempts, err
		}
		if l != nil {
			return settling(l), attempts, nil
		}
		_, err = w.Wait(ctx, 0)
		w.Cancel()
		if err != nil {
			return nil, attempts, err
		}
	}
}

func (s leases) try(key string) (release func() bool, ok bool) {
	l, err := s.k.TryAcquire(fill.Key{Space: "harness", ID: key})
	if err != nil {
		return nil, false
	}
	return settling(l), true
}

func (s leases) close(ctx context.Context) error {
	return s.k.Close(ctx)
}

func settling(l *fill.Lease) func() bool {
	return func() bool { return l.Settle(fill.Outcome{Kind: fill.Stored}) }
}

// wrong is a lock with one of the mistakes that package fill makes impossible.
type wrong struct {
	wakeGrants   bool // who is woken believes that the key is its own
	releaseByKey bool // a release frees the key, whoever calls it and how often
	looseTry     bool // looking and taking are two steps

	mu   sync.Mutex // guards following
	held map[string]chan struct{}
}

func (w *wrong) acquire(ctx context.Context, key string) (release func() bool, attempts int, err error) {
	for attempts = 1; ; attempts++ {
		woken := w.take(key)
		if woken == nil {
			return w.releasing(key), attempts, nil
		}
		select {
		case <-woken:
		case <-ctx.Done():
			return nil, attempts, ctx.Err()
		}
		if w.wakeGrants {
			w.take(key)
			return w.releasing(key), attempts, nil
		}
	}
}

// take returns nil if the key is the caller's now, else what to wait for.
func (w *wrong) take(key string) (woken <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if woken, ok := w.held[key]; ok {
		return woken
	}
	if w.held == nil {
		w.held = make(map[string]chan struct{})
	}
	w.held[key] = make(chan struct{})
	return nil
}

func (w *wrong) releasing(key string) func() bool {
	done := false
	return func() bool {
		if done && !w.releaseByKey {
			return false
		}
		done = true
		return w.release(key)
	}
}

func (w *wrong) release(key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	woken, ok := w.held[key]
	if ok {
		delete(w.held, key)
		close(woken)
	}
	return ok
}

func (w *wrong) try(key string) (release func() bool, ok bool) {
	w.mu.Lock()
	_, held := w.held[key]
	w.mu.Unlock()
	if held {
		return nil, false
	}
	if w.looseTry {
		runtime.Gosched()
		time.Sleep(10 * time.Microsecond) // as long as a look at a database takes at the least
		w.take(key)
		return w.releasing(key), true
	}
	return w.releasing(key), w.take(key) == nil
}

func (w *wrong) close(context.Context) error {
	return nil
}
