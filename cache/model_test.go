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

	// modelSchedule is how many steps one schedule has.
	modelSchedule = 150

	modelTenure = 3 * time.Second
	// quick is how long the origin takes at least: not longer than a reader's goroutine waits for it.
	quick = 10 * time.Millisecond
	// half is half a step of the grid that actors keep to: content changes in between.
	half = 5 * time.Millisecond
)

// grid is a time on the grid of the actors.
func grid(n int) time.Duration { return time.Duration(n) * 10 * time.Millisecond }

// TestModel runs random schedules of everything that reads and writes a store, and checks each answer, and the store whenever all rest.
//
// Actors take steps on a few URLs of a scripted origin, whose content has a version per URL that each answer names: reads on the hit path and on the
// ordinary one (GET, HEAD, ranges, conditions, only-if-cached, clients that leave or are slow), refreshes with 200 and 304, stored POSTs, unsafe methods with
// Location and cache groups, purges of all six kinds, hard, soft, dry and without waiting, changes of Vary, evictions. The origin is slow, hangs, fails,
// breaks off, sends trailers, partial content and what is too large to be stored. The store lists what it held when a walk began, refuses
// records, is closed in the middle of all that and opened again, or, if it has a disk, left to a crash: the test goes on with a copy of
// its directory. Origin and stores are in model_origin_test.go and model_store_test.go, the steps in model_actor_test.go.
//
// A purge raises the versions of what it reaches before it begins. Checked are (model_check_test.go, model_quiet_test.go):
//
//   - no read gets a version that is older than an invalidation answered before the read began: hard ones, answers to unsafe methods; none is a
//     fresh hit if it is older than a soft one, and its lifetime ends with the first of these
//   - of one choice of request fields no hit is followed by one of an older version, and a fresh record is hit again, unless something that began
//     after its own exchange may have taken it away
//   - every answer is whole, of the right variant, and well-formed to a parser without tolerance
//   - at rest no log entry, fill or waiting reader is left, the store's invariants hold, none of its records is older than an invalidation,
//     counts of purges are those of the store, and soft purges move no deadline later
//   - no fill begins after Close, none of a silent origin outlives its tenures, no string of an event changes, Refresh tells of no success that was none
//
// A schedule has a seed, which a failure names; seedVar repeats its choices, not how its goroutines meet: it may take some runs.
func TestModel(t *testing.T) {
	for name, open := range modelStores {
		t.Run(name, func(t *testing.T) {
			steps := modelSteps(t, name)
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

// modelSteps is how many steps are run on a store: as many as take about ten seconds under the race detector.
func modelSteps(t *testing.T, store string) int {
	t.Helper()
	if v := os.Getenv(stepsVar); v != "" {
		steps, err := strconv.Atoi(v)
		if err != nil {
			t.Fatalf("%s: %v", stepsVar, err)
		}
		return steps
	}
	if keepsRecords(store) {
		return 1200
	}
	return 3000
}

// profile is what kind of schedule one is.
type profile struct {
	front       string // how the cache is used
	shared      bool   // its keeper may have holders elsewhere
	concurrency int    // fills at once for one origin, −1 for no bound
	beat        int    // most waits are multiples of it, on the grid
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
	p.beat = []int{1, 25}[rng.IntN(2)]
	if rng.IntN(4) == 0 {
		p.concurrency, p.beat = 1+rng.IntN(3), 50 // so that fills get their place in the instant in which they renew their lease
	}
	if rng.IntN(8) == 0 {
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
	anyShut atomic.Bool // a cache was closed
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
	m.anyShut.Store(true)
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
