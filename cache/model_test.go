package cache_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/fill"
	"github.com/swrproxy/swrproxy/policy"
)

const (
	// seedVar names one seed for TestModel to run alone, stepsVar how many steps it runs on each store.
	seedVar  = "SWRPROXY_MODEL_SEED"
	stepsVar = "SWRPROXY_MODEL_STEPS"

	// modelSteps is enough for about five seconds on each store under the race detector; modelSchedule is the size of one schedule.
	modelSteps    = 2400
	modelSchedule = 150

	modelTenure = 3 * time.Second
	// quick is how long the origin takes at least: not longer than a reader's goroutine waits for it.
	quick = 10 * time.Millisecond
	// half is half a step of the grid that actors keep to: content changes in between.
	half = 5 * time.Millisecond
)

// grid is a time on the grid of the actors.
func grid(n int) time.Duration { return time.Duration(n) * 10 * time.Millisecond }

// TestModel runs random schedules of everything that writes to a store: readers by the ordinary path and by the hit path, fills, refreshes with 200 and 304,
// HEAD updates, stored POSTs, unsafe methods, Vary that appears and changes, partial content, trailers, soft and hard purges of all six kinds, evictions, a store
// that refuses, and restarts where there is a disk. The clock is that of a synctest bubble.
//
// Checked after every step: no read gets content older than the last answered hard purge of it; no newer record is lost to an older writer; soft purges only
// ever move deadlines earlier; counts in answers are true; every answer is well-formed. At the end the log is empty, and nothing runs or waits.
//
// A failure prints its seed and the history of the URL. SWRPROXY_MODEL_SEED runs one seed alone, SWRPROXY_MODEL_STEPS sets how many steps each store gets.
func TestModel(t *testing.T) {
	steps := modelSteps
	if v := os.Getenv(stepsVar); v != "" {
		var err error
		if steps, err = strconv.Atoi(v); err != nil {
			t.Fatalf("%s: %v", stepsVar, err)
		}
	}
	for name, open := range modelStores {
		t.Run(name, func(t *testing.T) {
			if seed, err := strconv.ParseUint(os.Getenv(seedVar), 10, 64); err == nil {
				runModel(t, name, open, seed)
				return
			}
			first := rand.Uint64()
			n := uint64(max(1, steps/modelSchedule))
			t.Logf("seeds %d to %d", first, first+n-1)
			for i := range n {
				if runModel(t, name, open, first+i); t.Failed() {
					return
				}
			}
		})
	}
}

// profile is what kind of schedule one is.
type profile struct {
	front       string // how the cache is used
	shared      bool   // its keeper may have holders elsewhere
	concurrency int    // fills at once for one origin, −1 for no bound
	budget      int64  // of memory
	slow        bool   // walks take their time
	refuses     bool   // the store refuses records now and then
	evicts      bool   // records are taken away behind the cache's back
	varies      bool   // Vary changes
	actors      int
	hot         []int // the URLs that most steps are for
	// ordered: a fill's number and its place in the order of the origin's content agree, and nothing is evicted unseen.
	ordered bool
}

func drawProfile(rng *rand.Rand) profile {
	p := profile{
		front: []string{"proxy", "brief", "transport", "handler"}[rng.IntN(4)], shared: rng.IntN(3) == 0, concurrency: -1, budget: 32 << 20,
		slow: rng.IntN(2) == 0, refuses: rng.IntN(5) == 0, evicts: rng.IntN(3) == 0, varies: rng.IntN(2) == 0, actors: 4 + rng.IntN(8),
		hot: rng.Perm(numURLs)[:1+rng.IntN(2)],
	}
	if rng.IntN(4) == 0 {
		p.concurrency = 1 + rng.IntN(3)
	}
	if rng.IntN(5) == 0 {
		p.budget = 48 << 10
	}
	p.ordered = p.front != "handler" && p.concurrency < 0 && p.budget > 1<<20
	return p
}

// model is one schedule.
type model struct {
	*testing.T
	seed    uint64
	name    string
	open    openStore
	profile profile
	rng     *rand.Rand // of the schedule itself
	origin  *modelOrigin
	truth   truth
	clock   atomic.Uint64
	began   time.Time
	quiet   atomic.Bool // nothing but the checks goes on
	failed  atomic.Bool
	house   atomic.Pointer[house]
	dirs    int
	dead    sync.WaitGroup // crashed caches on their way out

	mu      sync.Mutex // guards history
	history [numURLs][]string
}

// house is one cache with its store: a restart brings the next.
type house struct {
	c     *cache.Cache
	front http.Handler
	store modelStore
	dir   string
	watch *modelObserver
	shut  atomic.Bool // Close was called, or the process is held to be dead
}

// modelObserver checks what a cache reports. Safe for concurrent use.
type modelObserver struct {
	m      *model
	closed atomic.Bool // Close has returned
	mu     sync.Mutex  // guards following
	last   cache.ReadEvent
	copied string // of its strings
}

// ReadDone keeps the event's strings: they may not change.
func (o *modelObserver) ReadDone(e *cache.ReadEvent) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := stringsOf(&o.last); now != o.copied {
		o.m.fail(0, "the strings of an event changed from %q to %q", o.copied, now)
	}
	o.last, o.copied = *e, stringsOf(e)
}

func stringsOf(e *cache.ReadEvent) string {
	return strings.Join([]string{e.Rule, e.Method, e.Scheme, e.Host, e.Path, e.Query, e.Remote, e.Proto}, " ")
}

func (o *modelObserver) FillStarted(e *cache.FillEvent) {
	if o.closed.Load() {
		o.m.fail(0, "a fill of %s began after Close", e.URL)
	}
}

func (o *modelObserver) FillDone(*cache.FillEvent) {}

func (o *modelObserver) Noted(n *cache.Note) {
	if n.Kind == cache.NotePanic {
		o.m.fail(0, "panic: %v", n.Err)
	}
}

func runModel(t *testing.T, name string, open openStore, seed uint64) {
	base := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(seed, 1))
		m := &model{T: t, seed: seed, name: name, open: open, profile: drawProfile(rng), rng: rng, began: time.Now()}
		m.truth.seen = map[string]seen{}
		m.origin = newModelOrigin(m, rand.New(rand.NewPCG(seed, 2)))
		m.move(filepath.Join(base, "0"))
		m.run(base)
		if t.Failed() {
			t.Fatalf("replay with %s=%d -run 'TestModel/%s'; profile %+v", seedVar, seed, name, m.profile)
		}
	})
}

func (m *model) tick() uint64 { return m.clock.Add(1) }

// note writes the history of a URL, for a failure.
func (m *model) note(u int, format string, args ...any) {
	line := fmt.Sprintf("%8v tick %d: ", time.Since(m.began), m.clock.Load()) + fmt.Sprintf(format, args...)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.history[u] = append(m.history[u], line)
	if len(m.history[u]) > 60 {
		m.history[u] = m.history[u][20:]
	}
}

func (m *model) noteAll(urls []int, format string, args ...any) {
	for _, u := range urls {
		m.note(u, format, args...)
	}
}

// fail reports a broken promise, the first of a schedule with the history of its URL. It returns false.
func (m *model) fail(u int, format string, args ...any) bool {
	if m.failed.Swap(true) {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Errorf("seed %d: %s\nat %v, tick %d; history of %s:\n%s", m.seed, fmt.Sprintf(format, args...), time.Since(m.began), m.clock.Load(),
		resources[u].path, strings.Join(m.history[u], "\n"))
	return false
}

// since is how far from the fake clock's beginning an instant is.
func since(at time.Time) time.Duration { return at.Sub(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) }

// move opens a cache on a directory.
func (m *model) move(dir string) {
	tr := &troubles{m: m, rng: rand.New(rand.NewPCG(m.seed, 3)), slow: m.profile.slow, refuses: m.profile.refuses}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		m.Fatal(err)
	}
	h := &house{store: m.open(m.T, dir, m.profile.budget, tr), dir: dir, watch: &modelObserver{m: m, copied: stringsOf(&cache.ReadEvent{})}}
	cfg := cache.Config{
		Store: h.store, Observer: h.watch,
		Fill:   cache.FillConfig{Tenure: modelTenure, Concurrency: m.profile.concurrency, MarkFor: time.Second, BackoffFirst: time.Second, BackoffMax: 4 * time.Second},
		Object: cache.ObjectConfig{Max: modelObjectMax},
	}
	if m.profile.shared {
		cfg.Sequence = fill.NewSequence(uint64(time.Now().UnixNano()))
		cfg.Keeper = sharedKeeper{fill.New(fill.Options{Tenure: modelTenure, Sequence: cfg.Sequence})}
	}
	up := m.upstream()
	set := policy.Settings{StorePOST: true}
	part := policy.Settings{StorePOST: true, StorePartial: true}
	cfg.Rules = []cache.Rule{
		{Name: "part", Match: policy.MatchSpec{Paths: []string{"/q/part"}}, Policy: part, Upstream: up},
		{Name: "keyed", Match: policy.MatchSpec{Paths: []string{"/k/*"}}, Key: policy.KeySpec{Headers: []string{"X-Key"}}, Policy: set, Upstream: up},
		{Name: "rest", Policy: set, Upstream: up},
	}
	var err error
	if h.c, err = cache.New(cfg); err != nil {
		m.Fatal(err)
	}
	h.front = m.frontOf(h.c)
	m.house.Store(h)
}

func (m *model) upstream() http.RoundTripper {
	switch m.profile.front {
	case "brief":
		return briefOrigin{m.origin}
	case "handler":
		return nil
	default:
		return m.origin
	}
}

func (m *model) frontOf(c *cache.Cache) http.Handler {
	switch m.profile.front {
	case "transport":
		return passOn(c.Transport(m.origin))
	case "handler":
		return c.Handler(m.origin)
	default:
		return c.Proxy(nil)
	}
}

// passOn answers with what a client-side cache returns.
func passOn(up http.RoundTripper) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := r.Clone(r.Context())
		out.URL.Scheme, out.URL.Host, out.RequestURI = "http", r.Host, ""
		resp, err := up.RoundTrip(out)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		send(w, resp)
	})
}

// run is the schedule: phases in which actors meet, and between them checks and, sometimes, a restart.
func (m *model) run(base string) {
	for left := modelSchedule; left > 0 && !m.failed.Load(); {
		n := min(left, 40+m.rng.IntN(60))
		left -= n
		how := m.drawRestart()
		m.phase(n, how, base)
		if m.failed.Load() {
			break
		}
		if how == stayOpen {
			m.checkQuiet()
		}
	}
	m.shutDown(m.house.Load())
	m.dead.Wait()
}

// restart is how a phase ends.
type restart uint8

const (
	stayOpen   restart = iota // with checks
	closeAmong                // Close while the actors go on, then a new cache
	crash                     // without Close, at an instant in the middle of the phase
)

func (m *model) drawRestart() restart {
	switch n := m.rng.IntN(10); {
	case n < 2:
		return closeAmong
	case n < 4 && keepsRecords(m.name):
		return crash
	default:
		return stayOpen
	}
}

// phase lets actors take n steps in all.
func (m *model) phase(n int, how restart, base string) {
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	for i := range m.profile.actors {
		rng := rand.New(rand.NewPCG(m.rng.Uint64(), uint64(i)))
		wg.Go(func() {
			a := &actor{m: m, rng: rng}
			for left.Add(-1) >= 0 && !m.failed.Load() {
				a.rest()
				a.step()
			}
		})
	}
	m.dirs++
	dir := filepath.Join(base, strconv.Itoa(m.dirs))
	switch how {
	case closeAmong:
		time.Sleep(grid(m.rng.IntN(300)))
		m.reopen(dir)
	case crash:
		time.Sleep(grid(m.rng.IntN(300)) + 2*time.Millisecond)
		m.crash(dir)
	}
	wg.Wait()
	m.settle()
}

// reopen closes the cache while it is used and opens another on the same directory.
func (m *model) reopen(dir string) {
	old := m.house.Load()
	over := m.truth.touched(m, "restart", allURLs...)
	defer over()
	m.shutDown(old)
	if keepsRecords(m.name) {
		dir = old.dir
	}
	m.move(dir)
	m.truth.forget()
}

// shutDown closes a cache.
func (m *model) shutDown(h *house) {
	h.shut.Store(true)
	m.noteAll(allURLs, "close")
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	if err := h.c.Close(ctx); err != nil {
		m.fail(0, "Close: %v", err)
	}
	h.watch.closed.Store(true)
	m.noteAll(allURLs, "closed")
}

// crash goes on with a copy of the directory as it is at an instant at which everybody waits. What was not on disk is lost, what invalidations
// had been answered holds.
func (m *model) crash(dir string) {
	synctest.Wait()
	old := m.house.Load()
	old.shut.Store(true)
	over := m.truth.touched(m, "crash", allURLs...)
	defer over()
	m.truth.crash()
	copyDir(m.T, old.dir, dir)
	m.noteAll(allURLs, "crash")
	m.move(dir)
	m.truth.forget()
	m.dead.Go(func() { m.shutDown(old) }) // the dead process; its last words are heard by nobody
}

// settle waits until all fills have ended and all invalidations are applied.
func (m *model) settle() {
	for range 200 {
		synctest.Wait()
		if s := m.house.Load().c.Stats(); s.Fills == 0 && s.Invalidations == 0 {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	if s := m.house.Load().c.Stats(); !m.failed.Load() {
		m.fail(0, "%d fills run 100 s after the last reader has left, %d entries are in the log", s.Fills, s.Invalidations)
	}
}
