package origin

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Pool is one origin: the connections to its URLs and what is known of their health. It is an [http.RoundTripper].
//
// Safe for concurrent use.
type Pool struct {
	cfg     Config
	targets []*target
	plain   bool        // all of them speak plain HTTP/1.1
	via     [3][]string // the Via line of a request without one, by HTTP version 1.0, 1.1, 2
	lookup  func(ctx context.Context, host string) ([]netip.Addr, error)

	next  atomic.Uint64 // round robin
	epoch time.Time     // spans of health and look-ups count from here
	gate  *gate         // exchanges and look-ups in flight

	timers sync.Pool // of *idleTimer; not global, for a timer belongs to its test's bubble

	ctx    context.Context // ends at Close; look-ups in the background run under it
	cancel context.CancelFunc
}

// New makes the pool of cfg. It opens no connection. It fails when cfg contradicts itself or a TLS file can not be read.
func New(cfg Config) (*Pool, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("origin %s: %w", cfg.Name, err)
	}
	p := &Pool{cfg: cfg, lookup: cfg.Lookup, epoch: time.Now(), gate: newGate()}
	if p.lookup == nil {
		p.lookup = lookupNet
	}
	p.via = [3][]string{{"1.0 " + cfg.Via}, {"1.1 " + cfg.Via}, {"2 " + cfg.Via}}
	p.plain = true
	for _, u := range cfg.URLs {
		p.plain = p.plain && u.Scheme == "http"
		t, err := newTarget(u, &p.cfg)
		if err != nil {
			return nil, fmt.Errorf("origin %s: url %s: %w", cfg.Name, u.Redacted(), err)
		}
		p.targets = append(p.targets, t)
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p, nil
}

// now is the time since the pool was made.
func (p *Pool) now() time.Duration { return time.Since(p.epoch) }

// Close refuses new exchanges, waits for those in flight until their bodies are closed, and then closes every
// connection. When ctx ends first it cuts what is left, which fails those exchanges, and returns the cause of ctx's end.
// Upgraded connections are exchanges too. Further calls do the same again and are harmless.
func (p *Pool) Close(ctx context.Context) error {
	p.gate.shut()
	p.cancel()
	for _, t := range p.targets {
		t.closeIdle()
	}
	var err error
	select {
	case <-p.gate.idle:
	case <-ctx.Done():
		err = fmt.Errorf("close origin %s: %w", p.cfg.Name, context.Cause(ctx))
	}
	for _, t := range p.targets {
		t.open.closeAll()
	}
	return err
}

var _ http.RoundTripper = (*Pool)(nil)
