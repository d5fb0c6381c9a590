package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"reflect"
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
type poolSet map[string]*pool

// pool is an origin with the settings that made it.
type pool struct {
	*origin.Pool
	from    config.Origin
	trusted []netip.Prefix
}

// newPoolSet makes the pools that cfg describes. Those of before whose settings are the same are taken over with their connections and
// what they know of the origin's health.
func newPoolSet(cfg *config.Config, before poolSet) (poolSet, error) {
	set := poolSet{}
	for name, o := range cfg.Origins {
		if old, ok := before[name]; ok && old.serves(o, cfg) {
			set[name] = old
			continue
		}
		made, err := origin.New(originConfig(name, o, cfg))
		if err != nil {
			return nil, errors.Join(err, set.without(before).closeNow())
		}
		set[name] = &pool{Pool: made, from: o, trusted: cfg.TrustedProxies}
	}
	return set, nil
}

// serves reports whether the pool is what o describes. Files named by o may have changed, so that they are read again.
func (p *pool) serves(o config.Origin, cfg *config.Config) bool {
	files := o.TLS.CA + o.TLS.Cert + o.TLS.Key
	return files == "" && reflect.DeepEqual(p.from, o) && slices.Equal(p.trusted, cfg.TrustedProxies)
}

// without returns the pools of s that are not in other.
func (s poolSet) without(other poolSet) poolSet {
	out := poolSet{}
	for name, p := range s {
		if other[name] != p {
			out[name] = p
		}
	}
	return out
}

// transport returns what a rule fetches through; nil for an unknown name.
func (s poolSet) transport(name string) http.RoundTripper {
	if p, ok := s[name]; ok {
		return p.Pool
	}
	return nil // not as a *pool: a nil one would not be nil
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

// swap puts a set into use.
func (o *origins) swap(next poolSet) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.set = next
}

// errStopping cuts the exchanges of retired origins when the process ends.
var errStopping = errors.New("app: stopping")

// retire closes a set when its exchanges have ended.
func (o *origins) retire(set poolSet) {
	if len(set) == 0 {
		return
	}
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
