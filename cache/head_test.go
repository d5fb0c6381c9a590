package cache_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swrproxy/swrproxy/cache"
)

// headed is an origin whose versions the test sets. An answer shows the version of the time when its request came.
type headed struct {
	mu      sync.Mutex // guards following
	version string
	// slowly is how long the answer to a HEAD takes; control is its Cache-Control.
	slowly  time.Duration
	control string
}

func (o *headed) set(version string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.version = version
}

func (o *headed) answer(_ int, r *http.Request) (*http.Response, error) {
	o.mu.Lock()
	version, slowly, control := o.version, o.slowly, o.control
	o.mu.Unlock()
	fields := []string{`Etag: "` + version + `"`, "Surrogate-Key: t1"}
	if r.Method == http.MethodHead {
		time.Sleep(slowly)
		return response(200, "", append(fields, "Cache-Control: "+control)...), nil
	}
	return response(200, version, append(fields, "Cache-Control: max-age=1")...), nil
}

// TestHeadNeverUndoesAPurge: a HEAD that began before an invalidation does not freshen what that took, whatever it went by, hard or soft.
func TestHeadNeverUndoesAPurge(t *testing.T) {
	ways := map[string]func(r *rig){
		"unsafe method": func(r *rig) { r.do(context.Background(), http.MethodDelete, "/p/a") },
	}
	for by, sel := range selectors {
		ways[by] = func(r *rig) { r.purge(sel, cache.PurgeOptions{}) }
		ways["soft "+by] = func(r *rig) { r.purge(sel, cache.PurgeOptions{Soft: true}) }
	}
	for by, invalidate := range ways {
		t.Run(by, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, r *rig) {
				o := &headed{version: "1", slowly: time.Second, control: "max-age=60"}
				r.origin.set(o.answer)
				wantBody(t, r.get("/p/a"), 200, "1")
				time.Sleep(1500 * time.Millisecond)
				done := make(chan struct{})
				go func() { r.do(context.Background(), http.MethodHead, "/p/a"); close(done) }()
				time.Sleep(300 * time.Millisecond)
				o.set("2")
				invalidate(r)
				<-done
				wantBody(t, r.get("/p/a"), 200, "2")
			})
		})
	}
}

// TestHeadRemovesNothingNewer: the answer to a HEAD drops what it shows to be outdated, but not what was stored since it began.
func TestHeadRemovesNothingNewer(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		o := &headed{version: "1", slowly: time.Second, control: "max-age=60"}
		r.origin.set(o.answer)
		wantBody(t, r.get("/p/a"), 200, "1")
		time.Sleep(1500 * time.Millisecond)
		o.set("2")
		done := make(chan struct{})
		go func() { r.do(context.Background(), http.MethodHead, "/p/a"); close(done) }()
		time.Sleep(500 * time.Millisecond)
		o.set("3")
		wantBody(t, r.get("/p/a"), 200, "3")
		<-done
		r.wantCalls(3)
		wantBody(t, r.get("/p/a", "Cache-Control: only-if-cached, max-stale"), 200, "3")
		r.wantCalls(3)
	})
}

// TestHeadFreshensNothingNewer: a HEAD that ends behind a newer fill of the same version does not take its deadlines back.
func TestHeadFreshensNothingNewer(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		o := &headed{version: "1", slowly: time.Second, control: "max-age=1"}
		r.origin.set(o.answer)
		wantBody(t, r.get("/p/a"), 200, "1")
		time.Sleep(1500 * time.Millisecond)
		done := make(chan struct{})
		go func() { r.do(context.Background(), http.MethodHead, "/p/a"); close(done) }()
		time.Sleep(500 * time.Millisecond)
		r.origin.set(after(0, func(int, *http.Request) *http.Response {
			return response(200, "2", `Etag: "2"`, "Cache-Control: max-age=60")
		}))
		wantBody(t, r.get("/p/a"), 200, "2")
		<-done
		wantBody(t, r.get("/p/a", "Cache-Control: only-if-cached"), 200, "2")
	})
}

// TestHeadFreshensForTheHitPath: RFC 9111 §4.3.5. What a HEAD freshened is a well-formed hit with the new fields, on both paths.
func TestHeadFreshensForTheHitPath(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(func(_ int, req *http.Request) (*http.Response, error) {
			fields := []string{`Etag: "a"`, "Content-Type: text/plain", "Surrogate-Key: t1", "Cache-Control: max-age=0"}
			if req.Method == http.MethodHead {
				fields[3] = "Cache-Control: max-age=60, public"
				fields = append(fields, "Content-Language: en", "Accept-Ranges: bytes")
				return response(200, "", fields...), nil
			}
			return response(200, "body", fields...), nil
		})
		wantBody(t, r.get("/a"), 200, "body")
		synctest.Wait()
		r.do(context.Background(), http.MethodHead, "/a")
		wantBody(t, r.get("/a"), 200, "body")
		r.wantCalls(2)
		for _, fields := range [][]string{nil, {`If-None-Match: "a"`}} {
			a, ok := fastGet(t, r.c, http.MethodGet, "/a", fields...)
			if !ok {
				t.Fatal("not answered on the hit path")
			}
			if got := a.header.Get("Cache-Control"); got != "max-age=60, public" {
				t.Errorf("%v: status %d, Cache-Control %q: not the freshened one", fields, a.status, got)
			}
			if a.header.Get("Etag") != `"a"` || !strings.Contains(a.header.Get("Cache-Status"), "hit") {
				t.Errorf("%v: %v", fields, a.header)
			}
		}
	})
}
