package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/swrproxy/swrproxy/internal/config"
	"github.com/swrproxy/swrproxy/internal/telemetry"
	"github.com/swrproxy/swrproxy/origin"
)

// retireGrace is how long the exchanges of replaced origins may go on: downloads and upgraded connections can be long, and a reload
// should not break them.
const retireGrace = time.Hour

// poolSet are the origins of one version of the settings, by name. Immutable.
type poolSet map[string]*origin.Pool

func newPoolSet(cfg *config.Config) (poolSet, error) {
	set := poolSet{}
	for name, o := range cfg.Origins {
		pool, err := origin.New(originConfig(name, o, cfg))
		if err != nil {
			return nil, errors.Join(err, set.closeNow())
		}
		set[name] = pool
	}
	return set, nil
}

func (s poolSet) close(ctx context.Context) error {
	var errs []error
	for _, pool := range s {
		errs = append(errs, pool.Close(ctx))
	}
	return errors.Join(errs...)
}

// closeNow closes pools that nothing uses.
func (s poolSet) closeNow() error { return s.close(context.Background()) }

// targets lists the state of every URL, in the order of names.
func (s poolSet) targets() []telemetry.Target {
	names := make([]string, 0, len(s))
	for name := range s {
		names = append(names, name)
	}
	slices.Sort(names)
	var out []telemetry.Target
	for _, name := range names {
		for _, t := range s[name].Status() {
			out = append(out, telemetry.Target{Origin: name, URL: t.URL, Up: !t.Down})
		}
	}
	return out
}

// origins holds the set in use and those that still finish. The zero value is empty. Safe for concurrent use.
type origins struct {
	retiring sync.WaitGroup

	mu   sync.Mutex // guards following
	set  poolSet
	cuts []context.CancelCauseFunc // end the grace of retiring sets
}

func (o *origins) current() poolSet {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.set
}

// swap puts a set into use and returns the one before.
func (o *origins) swap(next poolSet) poolSet {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.set
	o.set = next
	return before
}

// errStopping cuts the exchanges of retired origins when the process ends.
var errStopping = errors.New("app: stopping")

// retire closes a set when its exchanges have ended.
func (o *origins) retire(set poolSet) {
	ctx, cut := context.WithCancelCause(context.Background())
	o.mu.Lock()
	o.cuts = append(o.cuts, cut)
	o.mu.Unlock()
	o.retiring.Go(func() {
		bounded, cancel := context.WithTimeout(ctx, retireGrace)
		defer cancel()
		_ = set.close(bounded) // what had to be cut has failed for its own reader, who was told
	})
}

// close ends all sets, retired ones at once.
func (o *origins) close(ctx context.Context) error {
	o.mu.Lock()
	cuts := o.cuts
	o.mu.Unlock()
	for _, cut := range cuts {
		cut(errStopping)
	}
	err := o.current().close(ctx)
	o.retiring.Wait()
	if err != nil {
		return fmt.Errorf("close origins: %w", err)
	}
	return nil
}
