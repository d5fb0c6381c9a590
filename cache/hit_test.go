package cache_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swrproxy/swrproxy/cache"
)

// A stale hit whose refresh would find no place among the origin's fills is answered from memory like one that is being refreshed.
func TestStaleHitWithoutPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := onMemory(t, 1<<20, cache.Config{Fill: cache.FillConfig{Concurrency: 1}})
		var asked atomic.Int32
		hang := make(chan struct{})
		h := c.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if asked.Add(1) > 2 {
				<-hang
			}
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set("Cache-Control", "max-age=1, stale-while-revalidate=600")
			_, _ = w.Write([]byte("x"))
		}))
		get := func(path string) {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "http://a.test"+path, nil))
		}
		hit := func(path string) bool {
			q := cache.HitRequest{Method: "GET", Target: []byte(path), Host: []byte("a.test"), At: time.Now()}
			var a cache.HitAnswer
			ok := c.Hit(&q, &a)
			if ok {
				c.HitSent(&a, 1, true)
			}
			return ok
		}
		get("/a")
		get("/b")
		time.Sleep(2 * time.Second)
		if hit("/b") {
			t.Error("a stale hit passed by a free place")
		}
		get("/a") // its refresh takes the only place
		synctest.Wait()
		if !hit("/a") || !hit("/b") {
			t.Error("no stale hit from memory beside a refresh that hangs")
		}
		if n := asked.Load(); n != 3 {
			t.Errorf("%d requests to the origin, want 3", n)
		}
		close(hang)
		_ = c.Close(t.Context())
	})
}

// What no purge by URL could reach is not stored: the answer to a request of HTTP/1.0 without a Host.
func TestNoHostPasses(t *testing.T) {
	c, store := onMemory(t, 1<<20, cache.Config{})
	defer c.Close(t.Context())
	asked := 0
	h := c.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.Header().Set("Cache-Control", "max-age=60")
	}))
	for range 2 {
		r := httptest.NewRequest("GET", "/a", nil)
		r.Host, r.Proto, r.ProtoMinor = "", "HTTP/1.0", 0
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Errorf("status %d", w.Code)
		}
	}
	if asked != 2 || store.Stats().Records != 0 {
		t.Errorf("%d requests to the origin, %d records; want 2 and none", asked, store.Stats().Records)
	}
}
