package cache_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/memory"
)

const purgedURL = "http://example.org/p/a"

// selectors are all ways to reach purgedURL, whose responses carry the tag "t1".
var selectors = map[string]cache.Selector{
	"url":    {URL: purgedURL},
	"tag":    {Tags: []string{"t1", "unused"}},
	"prefix": {Prefix: "http://example.org/p/"},
	"glob":   {Glob: "http://*.org/*/a"},
	"host":   {Host: "example.org"},
	"all":    {All: true},
}

// mutable is an origin whose content the test changes; each answer is a snapshot at the time of the request and takes a while.
type mutable struct {
	mu      sync.Mutex // guards following
	content string
	delay   time.Duration
	control string
}

func (m *mutable) set(content string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.content = content
}

func (m *mutable) answer(_ int, r *http.Request) (*http.Response, error) {
	m.mu.Lock()
	content, delay, control := m.content, m.delay, m.control
	m.mu.Unlock()
	time.Sleep(delay)
	etag := `"` + content + `"`
	if r.Header.Get("If-None-Match") == etag {
		return response(304, "", "Etag: "+etag, "Cache-Control: "+control, "Surrogate-Key: t1 other"), nil
	}
	return response(200, content, "Etag: "+etag, "Cache-Control: "+control, "Surrogate-Key: t1 other"), nil
}

func (r *rig) purge(sel cache.Selector, opt cache.PurgeOptions) cache.PurgeResult {
	r.t.Helper()
	res, err := r.c.Purge(context.Background(), sel, opt)
	if err != nil {
		r.t.Fatalf("purge %+v: %v", sel, err)
	}
	return res
}

// TestPurgeOvertakesRunningFill: a fill that began before a purge never brings the old content back: cold with a 200, in the
// foreground with a 304, in the background with either, whatever the purge went by.
func TestPurgeOvertakesRunningFill(t *testing.T) {
	kinds := map[string]struct {
		control string
		stored  bool // something is stored and expired before the fill
		same    bool // the fill in flight is answered 304
	}{
		"cold 200":       {"max-age=600", false, false},
		"foreground 304": {"max-age=1", true, true},
		"background 200": {"max-age=1, stale-while-revalidate=600", true, false},
		"background 304": {"max-age=1, stale-while-revalidate=600", true, true},
	}
	for kind, k := range kinds {
		for by, sel := range selectors {
			t.Run(kind+" by "+by, func(t *testing.T) {
				bubble(t, nil, func(t *testing.T, r *rig) {
					m := &mutable{content: "old", control: k.control}
					r.origin.set(m.answer)
					if k.stored {
						r.get("/p/a")
						time.Sleep(2 * time.Second)
					}
					if k.stored && !k.same {
						m.set("older")
					}
					m.delay = 2 * time.Second
					done := make(chan struct{})
					go func() { r.get("/p/a"); close(done) }()
					time.Sleep(time.Second)
					m.set("new")
					r.purge(sel, cache.PurgeOptions{})
					time.Sleep(5 * time.Second)
					<-done
					if got := r.get("/p/a").Body.String(); got != "new" {
						t.Errorf("after the purge: %q", got)
					}
				})
			})
		}
	}
}

// TestReadersAfterPurgeDoNotJoinOlderFill: who comes after the purge gets content from after it, whatever the purge went by: before the
// head of the older fill came, and while its body arrives.
func TestReadersAfterPurgeDoNotJoinOlderFill(t *testing.T) {
	for by, sel := range selectors {
		t.Run(by, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, r *rig) {
				m := &mutable{content: "old", control: "max-age=600", delay: 2 * time.Second}
				r.origin.set(m.answer)
				go r.get("/p/a")
				time.Sleep(time.Second)
				m.set("new")
				r.purge(sel, cache.PurgeOptions{})
				for _, w := range r.burst(10, "/p/a") {
					wantBody(t, w, 200, "new")
				}
				wantBody(t, r.get("/p/a"), 200, "new")
				if n := r.origin.count(); n > 2 {
					t.Errorf("%d fetches", n)
				}
			})
		})
	}
}

func TestPurgeReachesStoredRecords(t *testing.T) {
	for by, sel := range selectors {
		for _, soft := range []bool{false, true} {
			t.Run(by, func(t *testing.T) {
				bubble(t, nil, func(t *testing.T, r *rig) {
					m := &mutable{content: "old", control: "max-age=600, stale-while-revalidate=600"}
					r.origin.set(m.answer)
					r.get("/p/a")
					synctest.Wait() // the fill has left: the purged record is refreshed by another
					m.set("new")
					if res := r.purge(sel, cache.PurgeOptions{DryRun: true}); res.Records != 1 || len(res.Keys) != 1 {
						t.Errorf("dry run: %+v", res)
					}
					wantBody(t, r.get("/p/a"), 200, "old")
					if res := r.purge(sel, cache.PurgeOptions{Soft: soft}); res.Records != 1 {
						t.Errorf("purge: %+v", res)
					}
					first := "new"
					if soft {
						first = "old"
					}
					wantBody(t, r.get("/p/a"), 200, first)
					synctest.Wait()
					wantBody(t, r.get("/p/a"), 200, "new")
				})
			})
		}
	}
}

// TestSoftPurgeOnlyShortens: the windows count from the purge at most, from the first one.
func TestSoftPurgeOnlyShortens(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		m := &mutable{content: "old", control: "max-age=600, stale-if-error=60"}
		r.origin.set(m.answer)
		r.get("/p/a")
		sel := cache.Selector{Tags: []string{"t1"}}
		r.purge(sel, cache.PurgeOptions{Soft: true})
		r.origin.set(func(int, *http.Request) (*http.Response, error) { return nil, errors.New("down") })
		time.Sleep(50 * time.Second)
		r.purge(sel, cache.PurgeOptions{Soft: true})
		wantBody(t, r.get("/p/a"), 200, "old")
		time.Sleep(20 * time.Second)
		if w := r.get("/p/a"); w.Code != 504 {
			t.Errorf("70 s after the soft purge: %d", w.Code)
		}
	})
}

func TestPurgeMatchesTagsExactly(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		tags := []string{"a", "ab", "a,b", "a/1", "ä", "a.*"}
		r.origin.set(func(n int, req *http.Request) (*http.Response, error) {
			return response(200, "x", "Cache-Control: max-age=600", "Surrogate-Key: "+req.Header.Get("Tag")), nil
		})
		for _, tag := range tags {
			r.get("/t?"+http.CanonicalHeaderKey(tag), "Tag: "+tag)
		}
		if res := r.purge(cache.Selector{Tags: []string{"a"}}, cache.PurgeOptions{}); res.Records != 1 {
			t.Errorf("purge of a reached %v", res.Keys)
		}
		if res := r.purge(cache.Selector{Tags: tags}, cache.PurgeOptions{}); res.Records != len(tags)-1 {
			t.Errorf("purge of the others reached %v", res.Keys)
		}
	})
}

func TestPurgeReachesAllVariants(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(after(0, func(n int, req *http.Request) *http.Response {
			return response(200, "x", "Cache-Control: max-age=600", "Vary: Accept-Encoding")
		}))
		for _, coding := range []string{"gzip", "br", "identity"} {
			r.get("/v", "Accept-Encoding: "+coding)
		}
		r.get("/v")
		n := r.origin.count()
		if res := r.purge(cache.Selector{URL: "http://example.org/v"}, cache.PurgeOptions{}); res.Records != n {
			t.Errorf("reached %d of %d variants", res.Records, n)
		}
		r.get("/v", "Accept-Encoding: gzip")
		r.wantCalls(n + 1)
	})
}

// writeBehind is a store whose Sync can be counted and made to hang.
type writeBehind struct {
	*memory.Store
	syncs atomic.Int64
	hang  bool
}

func (s *writeBehind) Sync(ctx context.Context) error {
	s.syncs.Add(1)
	if s.hang {
		<-ctx.Done()
	}
	return ctx.Err()
}

// TestUnsafeMethodInvalidatesDurably: the answer to an unsafe request comes when what it invalidated is gone for good. Nothing is waited for if
// nothing was stored, and not for ever.
func TestUnsafeMethodInvalidatesDurably(t *testing.T) {
	for name, c := range map[string]struct {
		stored, hang bool
		syncs        int64
		took         time.Duration
	}{
		"stored":           {stored: true, syncs: 1},
		"nothing stored":   {},
		"disk that hangs":  {stored: true, hang: true, syncs: 1, took: time.Second},
		"not even touched": {hang: true},
	} {
		t.Run(name, func(t *testing.T) {
			var s *writeBehind
			change := func(cfg *cache.Config) {
				s = &writeBehind{Store: cfg.Store.(*memory.Store), hang: c.hang}
				cfg.Store = s
			}
			bubble(t, change, func(t *testing.T, r *rig) {
				r.origin.set(after(0, numbered("Cache-Control: max-age=600")))
				if c.stored {
					r.get("/a")
				}
				start := time.Now()
				r.do(context.Background(), "POST", "/a")
				if n, took := s.syncs.Load(), time.Since(start); n != c.syncs || took != c.took {
					t.Errorf("answered after %d syncs and %v, want %d and %v", n, took, c.syncs, c.took)
				}
				synctest.Wait() // the entry stays until the fill that is older has ended
				if n := r.c.Stats().Invalidations; n != 0 {
					t.Errorf("%d entries left", n)
				}
			})
		})
	}
}

// TestUnsafeMethodsShareWhatTheyWaitFor: of two unsafe requests for one URL, that which finds nothing any more is answered no earlier than what the other one has
// removed is gone for good.
func TestUnsafeMethodsShareWhatTheyWaitFor(t *testing.T) {
	var s *writeBehind
	change := func(cfg *cache.Config) {
		s = &writeBehind{Store: cfg.Store.(*memory.Store), hang: true}
		cfg.Store = s
	}
	bubble(t, change, func(t *testing.T, r *rig) {
		r.origin.set(after(0, numbered("Cache-Control: max-age=600")))
		r.get("/a")
		go r.do(context.Background(), "POST", "/a")
		time.Sleep(time.Millisecond)
		start := time.Now()
		r.do(context.Background(), "POST", "/a")
		if took := time.Since(start); took < time.Second/2 {
			t.Errorf("the second was answered after %v, before the disk had anything", took)
		}
		time.Sleep(2 * time.Second)
		start = time.Now()
		r.do(context.Background(), "POST", "/a")
		if took := time.Since(start); took != 0 {
			t.Errorf("a later one, which found nothing, was answered after %v", took)
		}
	})
}

func TestBadSelectors(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		for _, sel := range []cache.Selector{{}, {All: true, Host: "x"}, {URL: "/relative"}, {URL: "http://h/%zz"}} {
			if _, err := r.c.Purge(context.Background(), sel, cache.PurgeOptions{}); !errors.Is(err, cache.ErrSelector) {
				t.Errorf("%+v: %v", sel, err)
			}
		}
	})
}

// TestInvalidationsAreDropped: the log does not grow with the number of invalidations.
func TestInvalidationsAreDropped(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(after(0, numbered("Cache-Control: max-age=600")))
		for i := range 100 {
			r.do(context.Background(), "POST", fmt.Sprint("/p/", i))
			r.purge(cache.Selector{Prefix: fmt.Sprint("http://example.org/p/", i)}, cache.PurgeOptions{})
		}
		synctest.Wait()
		r.do(context.Background(), "POST", "/p")
		synctest.Wait()
		if n := r.c.Stats().Invalidations; n != 0 {
			t.Errorf("%d entries left", n)
		}
	})
}
