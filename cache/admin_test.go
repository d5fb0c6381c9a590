package cache_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/memory"
	"github.com/swrproxy/swrproxy/policy"
)

// TestPurgeHoldsThoughItsCallerLeft: who gives up waiting leaves nothing behind that later reads would find.
func TestPurgeHoldsThoughItsCallerLeft(t *testing.T) {
	for by, sel := range selectors {
		for _, soft := range []bool{false, true} {
			t.Run(by, func(t *testing.T) {
				bubble(t, nil, func(t *testing.T, r *rig) {
					m := &mutable{content: "old", control: "max-age=600"}
					r.origin.set(m.answer)
					r.get("/p/a")
					synctest.Wait()
					m.set("new")
					gone, cancel := context.WithCancel(context.Background())
					cancel()
					if _, err := r.c.Purge(gone, sel, cache.PurgeOptions{Soft: soft}); err != nil && !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
					synctest.Wait()
					if n := r.c.Stats().Invalidations; n != 0 {
						t.Errorf("%d entries left", n)
					}
					wantBody(t, r.get("/p/a"), 200, "new")
				})
			})
		}
	}
}

// stuck is a store whose Walk and Find end only when released.
type stuck struct {
	*memory.Store
	release chan struct{}
}

func (s *stuck) Walk(f func(*cache.Record) bool) {
	<-s.release
	s.Store.Walk(f)
}

func (s *stuck) Find(term string, f func(*cache.Record) bool) {
	<-s.release
	s.Store.Find(term, f)
}

// TestPurgeUnderWayHoldsAlready: reads see it before the store was walked or its index asked, and after that.
func TestPurgeUnderWayHoldsAlready(t *testing.T) {
	for by, sel := range selectors {
		t.Run(by, func(t *testing.T) { purgeUnderWay(t, sel) })
	}
}

func purgeUnderWay(t *testing.T, sel cache.Selector) {
	s := &stuck{release: make(chan struct{})}
	bubble(t, func(cfg *cache.Config) { s.Store = cfg.Store.(*memory.Store); cfg.Store = s }, func(t *testing.T, r *rig) {
		m := &mutable{content: "old", control: "max-age=600"}
		r.origin.set(m.answer)
		r.get("/p/a")
		m.set("new")
		s.release = make(chan struct{}) // of this bubble
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := r.c.Purge(ctx, sel, cache.PurgeOptions{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		wantBody(t, r.get("/p/a"), 200, "new")
		close(s.release)
		synctest.Wait()
		wantBody(t, r.get("/p/a"), 200, "new")
		r.wantCalls(2)
	})
}

// unwritable is a store that cannot make anything durable.
type unwritable struct {
	*memory.Store
	err error
}

func (s *unwritable) Sync(context.Context) error { return s.err }

func TestPurgeThatCouldNotBeWrittenSaysSo(t *testing.T) {
	full := errors.New("disk full")
	bubble(t, func(cfg *cache.Config) { cfg.Store = &unwritable{cfg.Store.(*memory.Store), full} }, func(t *testing.T, r *rig) {
		m := &mutable{content: "old", control: "max-age=600"}
		r.origin.set(m.answer)
		r.get("/p/a")
		m.set("new")
		res, err := r.c.Purge(context.Background(), cache.Selector{URL: purgedURL}, cache.PurgeOptions{})
		if !errors.Is(err, full) || res.Records != 1 {
			t.Errorf("%+v, %v", res, err)
		}
		wantBody(t, r.get("/p/a"), 200, "new")
	})
}

func TestPurgeTellsTiersAndURLs(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(after(0, numbered("Cache-Control: max-age=600", "Vary: Accept-Language")))
		r.get("/a?x=1", "Accept-Language: de")
		r.get("/a?x=1", "Accept-Language: fr")
		r.get("/b")
		var urls []string
		note := func(url string) { urls = append(urls, url) }
		for _, dry := range []bool{true, false} {
			urls = nil
			res := r.purge(cache.Selector{Host: "EXAMPLE.org"}, cache.PurgeOptions{DryRun: dry, Reached: note})
			if res.Records != 3 || res.Tiers["memory"] != 3 || len(res.Tiers) != 1 {
				t.Errorf("dry run %v: %+v", dry, res)
			}
			slices.Sort(urls)
			if got := strings.Join(urls, " "); got != "http://example.org/a?x=1 http://example.org/a?x=1 http://example.org/b" {
				t.Errorf("dry run %v: reached %s", dry, got)
			}
		}
		if res := r.purge(cache.Selector{All: true}, cache.PurgeOptions{}); res.Records != 0 {
			t.Errorf("%d records left", res.Records)
		}
	})
}

// TestTenThousandTags: right counts, and the log is empty afterwards.
func TestTenThousandTags(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(func(_ int, req *http.Request) (*http.Response, error) {
			return response(200, "x", "Cache-Control: max-age=600", "Surrogate-Key: tag"+strings.TrimPrefix(req.URL.Path, "/")), nil
		})
		for i := range 20 {
			r.get(fmt.Sprint("/", i*1000))
		}
		tags := make([]string, 10_000)
		for i := range tags {
			tags[i] = fmt.Sprint("tag", i)
		}
		if res := r.purge(cache.Selector{Tags: tags}, cache.PurgeOptions{}); res.Records != 10 {
			t.Errorf("reached %d, want 10", res.Records)
		}
		synctest.Wait() // the entries stay until fills that are older have ended
		if n := r.c.Stats().Invalidations; n != 0 {
			t.Errorf("%d entries left", n)
		}
	})
}

// TestExplainSaysWhyNothingIsStored: the reason of the latest response that was not stored is remembered beyond the time in which
// its key is marked.
func TestExplainSaysWhyNothingIsStored(t *testing.T) {
	for name, c := range map[string]struct {
		field string
		want  policy.Reason
	}{
		"RFC 9111 §5.2.2.5 no-store": {"Cache-Control: no-store", policy.ReasonNoStore},
		"RFC 9111 §5.2.2.7 private":  {"Cache-Control: private", policy.ReasonPrivate},
		"RFC 9111 §3 no freshness":   {"X-Nothing: 1", policy.ReasonNoFreshness},
		"event stream":               {"Content-Type: text/event-stream", policy.ReasonStream},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, r *rig) {
				r.origin.set(after(0, numbered(c.field)))
				r.get("/x")
				time.Sleep(time.Hour)
				x := r.explain("/x")
				if x.Stored || x.NotStored != c.want || x.NotStoredStatus != 200 || time.Since(x.NotStoredAt) < time.Hour {
					t.Errorf("%+v", x)
				}
				r.origin.set(after(0, numbered("Cache-Control: max-age=60", "Etag: \"e\"")))
				r.get("/x")
				if x := r.explain("/x"); !x.Stored || x.NotStored != 0 || x.Fields.Get("Etag") != `"e"` {
					t.Errorf("after it was stored: %+v", x)
				}
			})
		})
	}
}

// RetryAt is told of the keys whose readers heed it: who can be given nothing else tries at once.
func TestExplainTellsOfThePauseThatReadersKeep(t *testing.T) {
	for name, c := range map[string]struct {
		control string // of what is stored; "" for nothing
		paused  bool
	}{
		"nothing stored":         {"", false},
		"no window":              {"max-age=1", false},
		"stale-while-revalidate": {"max-age=1, stale-while-revalidate=600", true},
		"stale-if-error":         {"max-age=1, stale-if-error=600", true},
		"must-revalidate":        {"max-age=1, stale-if-error=600, must-revalidate, proxy-revalidate", false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(cfg *cache.Config) { cfg.Fill.BackoffFirst = time.Minute }, func(t *testing.T, r *rig) {
				if c.control != "" {
					r.origin.set(after(0, numbered("Cache-Control: "+c.control)))
					r.get("/x")
					time.Sleep(2 * time.Second)
				}
				r.origin.set(func(int, *http.Request) (*http.Response, error) { return nil, errors.New("refused") })
				r.get("/x")
				synctest.Wait()
				x, calls := r.explain("/x"), r.origin.count()
				if got := !x.RetryAt.IsZero(); got != c.paused {
					t.Errorf("retry at %v, %v", x.RetryAt, x.Use)
				}
				r.get("/x")
				synctest.Wait()
				if tried := r.origin.count() > calls; tried == c.paused {
					t.Errorf("the next reader tried: %t", tried)
				}
			})
		})
	}
}

func TestExplainTellsOfTheRunningFill(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(after(2*time.Second, numbered("Cache-Control: max-age=60")))
		go r.get("/x")
		time.Sleep(time.Second)
		if x := r.explain("/x"); !x.Filling || x.FillBackground || x.FillReaders != 1 || x.FillToken == 0 || time.Since(x.FillingSince) != time.Second {
			t.Errorf("%+v", x)
		}
		synctest.Wait()
	})
}

func (r *rig) explain(path string) cache.Explanation {
	r.t.Helper()
	req, err := http.NewRequest("GET", "http://example.org"+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	x, err := r.c.Explain(req)
	if err != nil {
		r.t.Fatal(err)
	}
	return x
}

// crowd is how many records share one tag in TestSoftPurgeOfACrowd. Under the race detector, or with -short, fewer.
func crowd() int {
	if raceEnabled || testing.Short() {
		return 5_000
	}
	return 100_000
}

// TestSoftPurgeOfACrowd: when all records of one tag become stale at once and readers come for all of them, no more fills than
// fill.concurrency reach the origin at a time, each record is fetched at most once, and no reader waits.
func TestSoftPurgeOfACrowd(t *testing.T) {
	const places, step, pause = 32, 10, 5 * time.Millisecond // 2,000 reads a second
	n := crowd()
	change := func(cfg *cache.Config) {
		cfg.Fill.Concurrency = places
		cfg.Observer = nil
		store, err := memory.New(memory.Options{Max: 512 << 20})
		if err != nil {
			t.Fatal(err)
		}
		_ = cfg.Store.Close(t.Context())
		cfg.Store = store
	}
	bubble(t, change, func(t *testing.T, r *rig) {
		o := &loadedOrigin{seen: make(map[string]int)}
		r.origin.set(o.answer)
		for i := range n {
			r.get(fmt.Sprint("/crowd/", i))
		}
		o.begin(50 * time.Millisecond)
		if res := r.purge(cache.Selector{Tags: []string{"crowd"}}, cache.PurgeOptions{Soft: true}); res.Records != n {
			t.Errorf("reached %d records, want %d", res.Records, n)
		}
		start := time.Now()
		for i := range n {
			if i%step == step-1 {
				time.Sleep(pause)
			}
			if w := r.get(fmt.Sprint("/crowd/", i)); w.Code != 200 {
				t.Fatalf("read %d: %d", i, w.Code)
			}
		}
		if took, want := time.Since(start), time.Duration(n/step)*pause; took != want {
			t.Errorf("readers took %v, want %v: somebody waited", took, want)
		}
		synctest.Wait()
		o.check(t, places)
	})
}

// loadedOrigin counts how many requests it has at once and how often it was asked for each path.
type loadedOrigin struct {
	now, most atomic.Int64

	mu    sync.Mutex // guards following
	delay time.Duration
	seen  map[string]int // nil: not counted
	body  string         // "x" if empty
}

// begin starts the count, and makes each answer take a while.
func (o *loadedOrigin) begin(delay time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.delay = delay
	clear(o.seen)
	o.most.Store(0)
}

func (o *loadedOrigin) answer(_ int, r *http.Request) (*http.Response, error) {
	now := o.now.Add(1)
	defer o.now.Add(-1)
	for most := o.most.Load(); now > most && !o.most.CompareAndSwap(most, now); most = o.most.Load() {
	}
	o.mu.Lock()
	if o.seen != nil {
		o.seen[r.URL.Path]++
	}
	delay := o.delay
	o.mu.Unlock()
	time.Sleep(delay)
	return response(200, cmp.Or(o.body, "x"), "Cache-Control: max-age=36000, stale-while-revalidate=36000", "Surrogate-Key: crowd"), nil
}

func (o *loadedOrigin) check(t *testing.T, places int) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if most := int(o.most.Load()); most > places || most == 0 {
		t.Errorf("%d requests at the origin at once, want 1 to %d", most, places)
	}
	for path, n := range o.seen {
		if n > 1 {
			t.Errorf("%s was fetched %d times", path, n)
		}
	}
}
