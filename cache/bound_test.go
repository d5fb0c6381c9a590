package cache_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/policy"
)

// logBound is maxEntries, patternBound maxPatterns.
const (
	logBound     = 16 << 10
	patternBound = 256
)

// crowdOfTags are n tags that nothing has.
func crowdOfTags(n int, name string) cache.Selector {
	tags := make([]string, n)
	for i := range tags {
		tags[i] = fmt.Sprint(name, i)
	}
	return cache.Selector{Tags: tags}
}

// slowly makes an origin that answers /slow after a minute, all else at once.
func slowly(fields ...string) func(int, *http.Request) (*http.Response, error) {
	return func(_ int, req *http.Request) (*http.Response, error) {
		if req.URL.Path == "/slow" {
			time.Sleep(time.Minute)
		}
		return response(200, "body of "+req.URL.Path, fields...), nil
	}
}

// TestFullLogReachesNoMore: what invalidates one thing does not invalidate all because a slow fill makes the log grow to its bound.
func TestFullLogReachesNoMore(t *testing.T) {
	for name, last := range map[string]func(r *rig){
		"tags across the bound": func(r *rig) { r.purge(crowdOfTags(logBound/2+1, "c"), cache.PurgeOptions{}) },
		"more tags than fit":    func(r *rig) { r.purge(crowdOfTags(logBound+1, "c"), cache.PurgeOptions{}) },
		"unsafe request": func(r *rig) {
			r.purge(crowdOfTags(logBound/2, "c"), cache.PurgeOptions{})
			r.do(context.Background(), http.MethodDelete, "/other")
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(cfg *cache.Config) { cfg.Fill.Tenure = time.Hour }, func(t *testing.T, r *rig) {
				r.origin.set(slowly("Cache-Control: max-age=600"))
				r.get("/kept")
				slow := make(chan struct{})
				go func() { r.get("/slow"); close(slow) }()
				synctest.Wait()
				r.purge(crowdOfTags(logBound/2, "a"), cache.PurgeOptions{})
				last(r)
				calls := r.origin.count()
				wantBody(t, r.get("/kept"), 200, "body of /kept")
				r.wantCalls(calls)
				<-slow
			})
		})
	}
}

// prefixesWaiting starts as many purges by prefix as the log takes, behind a walk that waits for the gate.
func prefixesWaiting(t *testing.T, r *rig, s *gatedStore) (gate chan struct{}) {
	t.Helper()
	gate = make(chan struct{})
	s.hold(func() { <-gate }, nil)
	for i := range patternBound {
		go func() {
			_, _ = r.c.Purge(context.Background(), cache.Selector{Prefix: fmt.Sprint("http://nowhere/", i)}, cache.PurgeOptions{})
		}()
	}
	synctest.Wait()
	if n := r.c.Stats().Invalidations; n != patternBound {
		t.Fatalf("%d entries wait for a walk, want %d", n, patternBound)
	}
	return gate
}

// TestPatternsLeaveRoomForOthers: the bound of the patterns bounds patterns alone.
func TestPatternsLeaveRoomForOthers(t *testing.T) {
	var s *gatedStore
	bubble(t, func(cfg *cache.Config) {
		s = &gatedStore{Store: cfg.Store}
		cfg.Store = s
	}, func(t *testing.T, r *rig) {
		r.origin.set(slowly("Cache-Control: max-age=600"))
		r.get("/kept")
		synctest.Wait()
		gate := prefixesWaiting(t, r, s)
		r.do(context.Background(), http.MethodDelete, "/other")
		calls := r.origin.count()
		wantBody(t, r.get("/kept"), 200, "body of /kept")
		r.wantCalls(calls)
		close(gate)
	})
}

// TestCloseEndsAPurgeThatWaitsForRoom: a purge for which there is no room in the log does not keep Close waiting.
func TestCloseEndsAPurgeThatWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *gatedStore
		r := newRig(t, func(cfg *cache.Config) {
			s = &gatedStore{Store: cfg.Store}
			cfg.Store = s
		})
		r.origin.set(slowly("Cache-Control: max-age=600"))
		r.get("/kept")
		synctest.Wait()
		gate := prefixesWaiting(t, r, s)
		waited := make(chan error, 1)
		go func() {
			_, err := r.c.Purge(context.Background(), cache.Selector{Prefix: "http://one-more/"}, cache.PurgeOptions{})
			waited <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		closed := make(chan struct{})
		go func() { _ = r.c.Close(ctx); close(closed) }()
		time.Sleep(2 * time.Second)
		close(gate)
		<-closed
		if err := <-waited; !errors.Is(err, cache.ErrClosed) {
			t.Errorf("the purge that waited: %v, want ErrClosed", err)
		}
	})
}

// TestStoredPOSTOfAVoidTicket: the answer to a POST that was purged while the origin worked on it is not stored, although the log had to forget the purge.
func TestStoredPOSTOfAVoidTicket(t *testing.T) {
	rule := func(cfg *cache.Config) {
		cfg.Rules = []cache.Rule{{Name: "r", Policy: policy.Settings{StorePOST: true}}}
	}
	bubble(t, rule, func(t *testing.T, r *rig) {
		r.origin.set(func(_ int, req *http.Request) (*http.Response, error) {
			fields := []string{"Cache-Control: max-age=600", "Content-Location: /p/a"}
			if req.Method != http.MethodPost {
				return response(200, "new", fields...), nil
			}
			time.Sleep(time.Minute)
			return response(200, "old", fields...), nil
		})
		done := make(chan struct{})
		go func() { r.do(context.Background(), http.MethodPost, "/p/a"); close(done) }()
		synctest.Wait()
		r.purge(cache.Selector{URL: purgedURL}, cache.PurgeOptions{})
		for i := range 3 {
			r.purge(crowdOfTags(logBound, string(rune('a'+i))), cache.PurgeOptions{})
		}
		<-done
		wantBody(t, r.get("/p/a"), 200, "new")
	})
}

// TestPOSTThatIsNotStoredKeepsNothing: once it is known that the answer to a POST is not stored, the log keeps nothing for it, however long its body takes.
func TestPOSTThatIsNotStoredKeepsNothing(t *testing.T) {
	rule := func(cfg *cache.Config) {
		cfg.Rules = []cache.Rule{{Name: "r", Policy: policy.Settings{StorePOST: true}}}
	}
	bubble(t, rule, func(t *testing.T, r *rig) {
		r.origin.set(func(int, *http.Request) (*http.Response, error) {
			resp := response(200, "", "Cache-Control: no-store")
			resp.ContentLength, resp.Body = -1, halves("a", "b", time.Hour)
			return resp, nil
		})
		done := make(chan struct{})
		go func() { r.do(context.Background(), http.MethodPost, "/p/a"); close(done) }()
		synctest.Wait()
		r.purge(cache.Selector{URL: purgedURL}, cache.PurgeOptions{})
		if n := r.c.Stats().Invalidations; n != 0 {
			t.Errorf("%d entries are kept for an answer that is not stored", n)
		}
		<-done
	})
}

// TestPurgeByURLUnderOtherRules: a purge by URL reaches what a rule stored when its keys were made of the URL alone, although they are made of more by now.
func TestPurgeByURLUnderOtherRules(t *testing.T) {
	plain := []cache.Rule{{Name: "r"}}
	keyed := []cache.Rule{{Name: "r", Key: policy.KeySpec{Headers: []string{"X-Shop"}}}}
	for name, rules := range map[string][2][]cache.Rule{"more": {plain, keyed}, "less": {keyed, plain}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(cfg *cache.Config) { cfg.Rules = rules[0] }, func(t *testing.T, r *rig) {
				set := func(list []cache.Rule) {
					t.Helper()
					if err := r.c.SetRules(list); err != nil {
						t.Fatal(err)
					}
				}
				r.origin.set(after(0, numbered("Cache-Control: max-age=600")))
				wantBody(t, r.get("/p/a"), 200, "v1")
				synctest.Wait()
				set(rules[1])
				if res := r.purge(cache.Selector{URL: purgedURL}, cache.PurgeOptions{}); res.Records != 1 {
					t.Errorf("%d records reached, want 1", res.Records)
				}
				set(rules[0])
				wantBody(t, r.get("/p/a"), 200, "v2")
			})
		})
	}
}
