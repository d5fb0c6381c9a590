package cache_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/memory"
	"github.com/swrproxy/swrproxy/fill"
	"github.com/swrproxy/swrproxy/policy"
)

// gatedStore is a store that can be held up: a walk between its look at the store and its first record, a Get behind its look. It
// shows no interface beside Store and Walker.
type gatedStore struct {
	cache.Store
	walk func()           // nil does not hold up
	got  func(key string) // nil does not
	mu   sync.Mutex       // guards walk and got
}

func (s *gatedStore) hold(walk func(), got func(string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.walk, s.got = walk, got
}

func (s *gatedStore) gates() (walk func(), got func(string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.walk, s.got
}

// Walk lists what was there when it began.
func (s *gatedStore) Walk(f func(*cache.Record) bool) {
	var seen []*cache.Record
	s.Store.(cache.Walker).Walk(func(r *cache.Record) bool {
		seen = append(seen, r)
		return true
	})
	if walk, _ := s.gates(); walk != nil {
		walk()
	}
	for _, r := range seen {
		if !f(r) {
			return
		}
	}
}

func (s *gatedStore) Get(key string) (*cache.Record, bool) {
	r, ok := s.Store.Get(key)
	if _, got := s.gates(); got != nil {
		got(key)
	}
	return r, ok
}

// sharedKeeper is a keeper of which a cache does not know that all its holders are in this process.
type sharedKeeper struct{ *fill.Table }

// share gives a cache such a keeper.
func share(cfg *cache.Config) {
	cfg.Sequence = fill.NewSequence(1)
	cfg.Keeper = sharedKeeper{fill.New(fill.Options{Tenure: cfg.Fill.Tenure, Sequence: cfg.Sequence})}
}

// slowBody is a body that waits between its two halves.
type slowBody struct {
	io.Reader
}

func (slowBody) Close() error { return nil }

func halves(first, second string, pause time.Duration) io.ReadCloser {
	return slowBody{io.MultiReader(strings.NewReader(first), sleepReader(pause), strings.NewReader(second))}
}

// TestPurgeOvertakesStoredPOST: RFC 9110 §9.3.3. The answer to a POST is not stored if what it would be stored for was purged while it arrived, or
// while the origin worked on it.
func TestPurgeOvertakesStoredPOST(t *testing.T) {
	rule := func(cfg *cache.Config) {
		cfg.Rules = []cache.Rule{{Name: "r", Policy: policy.Settings{StorePOST: true}}}
	}
	for by, sel := range selectors {
		for when, purgeAt := range map[string]time.Duration{"before its head": time.Second, "in its body": 3 * time.Second} {
			t.Run(by+" "+when, func(t *testing.T) {
				bubble(t, rule, func(t *testing.T, r *rig) {
					r.origin.set(func(_ int, req *http.Request) (*http.Response, error) {
						fields := []string{"Cache-Control: max-age=600", "Content-Location: /p/a", "Surrogate-Key: t1"}
						if req.Method != http.MethodPost {
							return response(200, "new", fields...), nil
						}
						time.Sleep(2 * time.Second)
						resp := response(200, "", fields...)
						resp.ContentLength, resp.Body = 3, halves("o", "ld", 2*time.Second)
						return resp, nil
					})
					done := make(chan struct{})
					go func() { r.do(context.Background(), http.MethodPost, "/p/a"); close(done) }()
					time.Sleep(purgeAt)
					r.purge(sel, cache.PurgeOptions{})
					<-done
					wantBody(t, r.get("/p/a"), 200, "new")
				})
			})
		}
	}
}

// TestSoftPurgeOvertakesStoredPOST: the answer to a POST is not fresh if what it is stored for was made stale while it arrived, or while the origin worked on it.
func TestSoftPurgeOvertakesStoredPOST(t *testing.T) {
	rule := func(cfg *cache.Config) {
		cfg.Rules = []cache.Rule{{Name: "r", Policy: policy.Settings{StorePOST: true}}}
	}
	for by, sel := range selectors {
		for when, purgeAt := range map[string]time.Duration{"before its head": time.Second, "in its body": 3 * time.Second} {
			t.Run(by+" "+when, func(t *testing.T) {
				bubble(t, rule, func(t *testing.T, r *rig) {
					r.origin.set(func(_ int, req *http.Request) (*http.Response, error) {
						fields := []string{"Cache-Control: max-age=600, stale-while-revalidate=600", "Content-Location: /p/a", "Surrogate-Key: t1"}
						if req.Method != http.MethodPost {
							return response(200, "new", fields...), nil
						}
						time.Sleep(2 * time.Second)
						resp := response(200, "", fields...)
						resp.ContentLength, resp.Body = 3, halves("o", "ld", 2*time.Second)
						return resp, nil
					})
					done := make(chan struct{})
					go func() { r.do(context.Background(), http.MethodPost, "/p/a"); close(done) }()
					time.Sleep(purgeAt)
					r.purge(sel, cache.PurgeOptions{Soft: true})
					<-done
					wantBody(t, r.get("/p/a"), 200, "old")
					synctest.Wait()
					wantBody(t, r.get("/p/a"), 200, "new")
				})
			})
		}
	}
}

// TestStoredPOSTIsNewerThanItsOwnInvalidation: what a POST invalidates does not take its own answer.
func TestStoredPOSTIsNewerThanItsOwnInvalidation(t *testing.T) {
	rule := func(cfg *cache.Config) {
		cfg.Rules = []cache.Rule{{Name: "r", Policy: policy.Settings{StorePOST: true}}}
	}
	bubble(t, rule, func(t *testing.T, r *rig) {
		r.origin.set(after(0, numbered("Cache-Control: max-age=600", "Content-Location: /p/a")))
		wantBody(t, r.get("/p/a"), 200, "v1")
		wantBody(t, r.do(context.Background(), http.MethodPost, "/p/a"), 200, "v2")
		w := r.get("/p/a")
		wantBody(t, w, 200, "v2")
		r.wantCalls(2)
		if lines := w.Header()["Cache-Status"]; len(lines) != 1 || !strings.HasPrefix(lines[0], "swrproxy; hit") {
			t.Errorf("Cache-Status %q, want that of this hit alone", lines)
		}
	})
}

// TestPurgedRecordBecomesNoVariant: when an origin begins to send Vary, a record that the walk of a purge has not reached yet is not moved to
// where the walk has been.
func TestPurgedRecordBecomesNoVariant(t *testing.T) {
	for by, sel := range selectors {
		t.Run(by, func(t *testing.T) {
			var s *gatedStore
			bubble(t, func(cfg *cache.Config) {
				share(cfg) // else a fill that found nothing is told by a counter that nothing was stored since
				s = &gatedStore{Store: cfg.Store}
				cfg.Store = s
			}, func(t *testing.T, r *rig) {
				r.origin.set(after(0, func(int, *http.Request) *http.Response {
					return response(200, "old", "Cache-Control: max-age=600", "Surrogate-Key: t1")
				}))
				wantBody(t, r.get("/p/a"), 200, "old")
				synctest.Wait()
				r.origin.set(after(0, func(_ int, req *http.Request) *http.Response {
					return response(200, "new "+req.Header.Get("Accept-Language"), "Cache-Control: max-age=600", "Vary: Accept-Language", "Surrogate-Key: t1")
				}))
				gate := make(chan struct{})
				s.hold(func() { <-gate }, nil)
				done := make(chan struct{})
				go func() { r.purge(sel, cache.PurgeOptions{}); close(done) }()
				synctest.Wait()
				wantBody(t, r.get("/p/a", "Accept-Language: de"), 200, "new de")
				synctest.Wait()
				close(gate)
				<-done
				s.hold(nil, nil)
				wantBody(t, r.get("/p/a", "Accept-Language: en"), 200, "new en")
			})
		})
	}
}

// TestSoftPurgeBringsNothingBack: a soft purge that is about to put a record back, made stale, does not undo a hard one that took it
// meanwhile. Wall-clock, since what the second purge waits for may be a lock, which no bubble tells from work: the pause only gives
// it the chance to do wrong.
func TestSoftPurgeBringsNothingBack(t *testing.T) {
	for by, sel := range selectors {
		t.Run(by, func(t *testing.T) {
			var s *gatedStore
			r := newRig(t, func(cfg *cache.Config) {
				s = &gatedStore{Store: cfg.Store}
				cfg.Store = s
			})
			defer r.close()
			fields := []string{"Cache-Control: max-age=600, stale-while-revalidate=600", "Surrogate-Key: t1"}
			r.origin.set(after(0, func(int, *http.Request) *http.Response { return response(200, "old", fields...) }))
			wantBody(t, r.get("/p/a"), 200, "old")
			softly(t, r, s, sel)
			r.origin.set(after(0, func(int, *http.Request) *http.Response { return response(200, "new", fields...) }))
			wantBody(t, r.get("/p/a"), 200, "new")
		})
	}
}

// softly purges softly, and hard by sel between the soft purge's look at a record and its put.
func softly(t *testing.T, r *rig, s *gatedStore, sel cache.Selector) {
	t.Helper()
	looked, hard, gate := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var once sync.Once
	s.hold(nil, func(string) {
		once.Do(func() {
			close(looked)
			<-gate
		})
	})
	soft := make(chan struct{})
	go func() { r.purge(cache.Selector{All: true}, cache.PurgeOptions{Soft: true}); close(soft) }()
	select {
	case <-looked:
	case <-soft: // it does without
	}
	go func() { r.purge(sel, cache.PurgeOptions{}); close(hard) }()
	select {
	case <-hard:
	case <-time.After(50 * time.Millisecond):
	}
	close(gate)
	<-soft
	<-hard
	s.hold(nil, nil)
}

// TestSoftPurgeKeepsTheNewestVariant: RFC 9111 §4.1. Of several stored responses that suit a request the most recent is used, after a soft purge too, which
// makes a longer lifetime look like a greater age.
func TestSoftPurgeKeepsTheNewestVariant(t *testing.T) {
	for by, sel := range selectors {
		t.Run(by, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, r *rig) {
				r.origin.set(after(0, func(int, *http.Request) *http.Response {
					return response(200, "older", "Cache-Control: max-age=1, stale-while-revalidate=600", "Surrogate-Key: t1")
				}))
				wantBody(t, r.get("/p/a", "Accept-Language: de"), 200, "older")
				r.origin.set(after(time.Second, func(int, *http.Request) *http.Response {
					return response(200, "newer", "Cache-Control: max-age=300, stale-while-revalidate=600", "Vary: Accept-Language", "Surrogate-Key: t1")
				}))
				time.Sleep(5 * time.Second)
				wantBody(t, r.get("/p/a", "Accept-Language: de"), 200, "older") // and is refreshed
				time.Sleep(5 * time.Second)
				wantBody(t, r.get("/p/a", "Accept-Language: de"), 200, "newer")
				r.purge(sel, cache.PurgeOptions{Soft: true})
				wantBody(t, r.get("/p/a", "Accept-Language: de"), 200, "newer")
			})
		})
	}
}

// TestInvalidationReachesOrphanedVariants: variants whose index was evicted are reached by what invalidates their URL, and do not come back
// with the next index.
func TestInvalidationReachesOrphanedVariants(t *testing.T) {
	ways := map[string]func(r *rig){
		"unsafe method": func(r *rig) { r.do(context.Background(), http.MethodDelete, "/p/a") },
		"location": func(r *rig) {
			r.do(context.Background(), http.MethodPost, "/elsewhere", "X-Location: /p/a")
		},
	}
	for by, sel := range selectors {
		ways[by] = func(r *rig) { r.purge(sel, cache.PurgeOptions{}) }
	}
	for by, invalidate := range ways {
		t.Run(by, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, r *rig) {
				version := "old "
				r.origin.set(after(0, func(_ int, req *http.Request) *http.Response {
					fields := []string{"Cache-Control: max-age=600", "Vary: Accept-Language", "Surrogate-Key: t1"}
					if to := req.Header.Get("X-Location"); to != "" {
						fields = append(fields, "Location: "+to)
					}
					return response(200, version+req.Header.Get("Accept-Language"), fields...)
				}))
				for _, lang := range []string{"de", "en"} {
					wantBody(t, r.get("/p/a", "Accept-Language: "+lang), 200, "old "+lang)
				}
				synctest.Wait()
				evictIndexes(t, r.store)
				version = "new "
				invalidate(r)
				synctest.Wait()
				for _, lang := range []string{"fr", "de", "en"} {
					wantBody(t, r.get("/p/a", "Accept-Language: "+lang), 200, "new "+lang)
				}
			})
		})
	}
}

// evictIndexes takes the indexes out of a store, as an eviction does, and leaves the variants.
func evictIndexes(t *testing.T, s *memory.Store) {
	t.Helper()
	n := 0
	s.Walk(func(rec *cache.Record) bool {
		if rec.Index != nil && s.Delete(rec.Key, rec.Token) {
			n++
		}
		return true
	})
	if n == 0 {
		t.Fatal("no index to evict")
	}
}

// plainStore is a store that can not list what it holds.
type plainStore struct{ cache.Store }

// TestStoreMustWalk: a purge could not find what a store holds that has no Walk, so such a store is refused.
func TestStoreMustWalk(t *testing.T) {
	store, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := cache.New(cache.Config{Store: plainStore{store}})
	if err == nil {
		defer c.Close(context.Background())
		t.Fatal("accepted")
	}
	defer store.Close(context.Background())
	if !strings.Contains(err.Error(), "Walker") {
		t.Errorf("%v does not name Walker", err)
	}
}
