package cache

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/swrproxy/swrproxy/fill"
)

// ErrClosed is returned by operations on a cache after Close.
var ErrClosed = errors.New("cache: closed")

// Defaults of [Config] where its fields are zero.
const (
	defaultTenure       = 10 * time.Second
	defaultWait         = 15 * time.Second
	defaultConcurrency  = 512
	defaultBackoffFirst = time.Second
	defaultBackoffMax   = time.Minute
	defaultMarkFor      = 10 * time.Second
	defaultObjectMax    = 256 << 20
	defaultVariants     = 64
)

// Cache is the engine: it answers requests from its store, and lets exactly one fill at a time refresh a
// record. Make one with New, use it through Handler, Transport or Proxy. Safe for concurrent use.
type Cache struct {
	store   reader
	w       writer
	nearby  func(key string) (*Record, bool) // the store's Get, as far as it never waits
	farther bool                             // there is more than nearby finds
	spooler Spooler                          // the store, if it takes bodies in while they arrive
	keeper  Keeper
	local   bool // the keeper's holders are all in this process
	seq     *fill.Sequence
	fillCfg FillConfig
	object  ObjectConfig
	room    *spoolRoom // for bodies on their way into a store that keeps them in memory; nil if it has files, or no limit
	obs     Observer
	scheme  func(*http.Request) string
	tags    []string

	rules   atomic.Pointer[ruleSet]
	flights flights
	states  keyStates
	walks   walks
	refused refusals
	slots   sync.Map // origin name → *semaphore.Weighted

	// base is the parent of every fill's context; stop ends it.
	base   context.Context
	stop   context.CancelCauseFunc
	closed atomic.Bool
	work   gate // fills and purges

	waiting atomic.Int64
	runners runners
	watches sync.Pool // of *fillWatch; not global, for a timer belongs to its test's bubble
}

// New makes a cache of cfg, or says which of its fields is wrong.
func New(cfg Config) (*Cache, error) {
	if cfg.Store == nil {
		return nil, errors.New("cache: Config.Store is nil: give it a store, for example memory.New")
	}
	if _, ok := cfg.Store.(Walker); !ok {
		return nil, fmt.Errorf("cache: Config.Store %T has no Walk, so a purge could not reach what it holds: implement cache.Walker", cfg.Store)
	}
	if cfg.Keeper != nil && cfg.Sequence == nil {
		return nil, errors.New("cache: Config.Sequence is nil beside a Keeper: give it the sequence that the keeper uses")
	}
	c := &Cache{
		store:   cfg.Store,
		keeper:  cfg.Keeper,
		seq:     cfg.Sequence,
		fillCfg: cfg.Fill.withDefaults(),
		object:  cfg.Object.withDefaults(),
		obs:     cfg.Observer,
		scheme:  cfg.Scheme,
		tags:    cfg.TagFields,
	}
	c.setDefaults(cfg.Store)
	if err := c.SetRules(cfg.Rules); err != nil {
		return nil, err
	}
	c.runners.next = make(chan *flight)
	c.base, c.stop = context.WithCancelCause(context.Background())
	if err := c.replay(); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Cache) setDefaults(store Store) {
	if c.seq == nil {
		// Starting at the clock keeps numbers growing from one process to the next.
		c.seq = fill.NewSequence(uint64(time.Now().UnixNano()))
	}
	if c.keeper == nil {
		c.keeper = fill.New(fill.Options{Tenure: c.fillCfg.Tenure, Sequence: c.seq})
	}
	if c.obs == nil {
		c.obs = NopObserver{}
	}
	if c.scheme == nil {
		c.scheme = connectionScheme
	}
	if c.tags == nil {
		c.tags = []string{"Surrogate-Key", "Cache-Tag"}
	}
	c.w.init(store, c.object.Variants, func(n *Note) { c.obs.Noted(n) })
	c.spooler, _ = store.(Spooler)
	if l, ok := store.(BodyLimiter); ok {
		c.object.Max = min(c.object.Max, l.BodyLimit())
		if c.spooler == nil {
			c.room = newSpoolRoom(l.BodyLimit())
		}
	}
	c.nearby = store.Get
	if m, ok := store.(MemoryGetter); ok {
		c.nearby, c.farther = m.GetMemory, true
	}
	_, c.local = c.keeper.(*fill.Table)
	c.states.markFor = c.fillCfg.MarkFor
	c.states.first, c.states.max = c.fillCfg.BackoffFirst, c.fillCfg.BackoffMax
}

func connectionScheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

func (f FillConfig) withDefaults() FillConfig {
	f.Tenure = orDefault(f.Tenure, defaultTenure)
	f.Wait = orDefault(f.Wait, defaultWait)
	f.Concurrency = orDefault(f.Concurrency, defaultConcurrency)
	f.BackoffFirst = orDefault(f.BackoffFirst, defaultBackoffFirst)
	f.BackoffMax = max(orDefault(f.BackoffMax, defaultBackoffMax), f.BackoffFirst)
	f.MarkFor = orDefault(f.MarkFor, defaultMarkFor)
	return f
}

func (o ObjectConfig) withDefaults() ObjectConfig {
	o.Max = orDefault(o.Max, defaultObjectMax)
	o.Variants = orDefault(o.Variants, defaultVariants)
	return o
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// closeGrace is how long the store may go on closing when Close's context has ended: to lose what waits to be written because a fill
// took too long would be a pity. It is enough for a full queue of the disk tier on a slow disk.
const closeGrace = 5 * time.Second

// Close stops new fills, waits for the running ones until ctx ends and then cancels them, and closes the keeper and
// the store. The store's own context ends five seconds after ctx: what waits to be written is written even if the fills used
// up the time. Requests that come later are passed to their upstream. It returns what went wrong, ctx's error included.
func (c *Cache) Close(ctx context.Context) error {
	if !c.closed.CompareAndSwap(false, true) {
		return ErrClosed
	}
	waitErr := c.drainFills(ctx)
	longer, cancel := outlasting(ctx, closeGrace)
	defer cancel()
	return errors.Join(waitErr, wrap("close keeper", c.keeper.Close(ctx)), wrap("close store", c.w.store.Close(longer)))
}

// outlasting returns a context that ends so much later than ctx, for the same cause. cancel frees what it holds.
func outlasting(ctx context.Context, more time.Duration) (_ context.Context, cancel func()) {
	longer, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		t := time.NewTimer(more)
		defer t.Stop()
		select {
		case <-t.C:
			end(context.Cause(ctx))
		case <-longer.Done():
		}
	})
	return longer, func() {
		stop()
		end(nil)
	}
}

// drainFills lets no more fills begin, and waits for those that run.
func (c *Cache) drainFills(ctx context.Context) error {
	done := c.work.shut()
	defer c.stop(ErrClosed)
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	c.stop(ErrClosed)
	<-done
	return fmt.Errorf("cache: fills cancelled: %w", context.Cause(ctx))
}

func wrap(action string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("cache: %s: %w", action, err)
}

// slotsOf returns the semaphore that bounds the fills of one origin, nil for no bound.
func (c *Cache) slotsOf(origin string) *semaphore.Weighted {
	if c.fillCfg.Concurrency < 0 {
		return nil
	}
	if s, ok := c.slots.Load(origin); ok {
		return s.(*semaphore.Weighted)
	}
	s, _ := c.slots.LoadOrStore(origin, semaphore.NewWeighted(int64(c.fillCfg.Concurrency)))
	return s.(*semaphore.Weighted)
}

// Stats are gauges of a cache now and its store's counters.
type Stats struct {
	// Fills is how many fills run, Waiting how many readers wait for one.
	Fills, Waiting int
	// Invalidations is how many log entries a look-up may have to consider; finished ones are dropped.
	Invalidations int
	// Store are the store's own figures, zero if it does not count.
	Store StoreStats
}

// Stats returns the present figures.
func (c *Cache) Stats() Stats {
	s := Stats{Fills: c.flights.running(), Waiting: int(c.waiting.Load()), Invalidations: c.w.log.size()}
	if src, ok := c.w.store.(StatsSource); ok {
		s.Store = src.Stats()
	}
	return s
}
