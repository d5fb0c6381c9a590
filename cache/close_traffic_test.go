package cache_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swrproxy/swrproxy/cache"
)

// closing counts what goes on in a cache after its Close has returned.
type closing struct {
	cache.NopObserver
	closed  atomic.Bool
	running atomic.Int64
	late    atomic.Int64
}

func (o *closing) FillStarted(*cache.FillEvent) {
	o.running.Add(1)
	if o.closed.Load() {
		o.late.Add(1)
	}
}

func (o *closing) FillDone(*cache.FillEvent) { o.running.Add(-1) }

// TestCloseUnderTraffic: while Close waits, and after it, readers, purges and unsafe methods come as before. No fill begins after it has returned,
// none is left running, and every request is answered.
func TestCloseUnderTraffic(t *testing.T) {
	for round := range 100 {
		closeInTraffic(t, round)
		if t.Failed() {
			return
		}
	}
}

func closeInTraffic(t *testing.T, round int) {
	o := &closing{}
	c, _ := onMemory(t, 1<<20, cache.Config{Observer: o})
	h := c.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "max-age=0, stale-while-revalidate=600")
		runtime.Gosched()
		_, _ = w.Write([]byte("x"))
	}))
	ticks, stop := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	loop := func(do func(i int)) {
		wg.Go(func() {
			for i := 0; ; i++ {
				do(i)
				select {
				case ticks <- struct{}{}:
				case <-stop:
					return
				}
			}
		})
	}
	ask := func(method, path string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, "http://a.test"+path, nil))
		if w.Code != http.StatusOK {
			t.Errorf("%s: status %d", method, w.Code)
		}
	}
	for worker := range 4 {
		loop(func(i int) { ask(http.MethodGet, fmt.Sprint("/", worker, "/", i/2)) })
	}
	loop(func(i int) { ask(http.MethodPut, fmt.Sprint("/0/", i)) })
	loop(func(int) {
		if _, err := c.Purge(context.Background(), cache.Selector{URL: "http://a.test/0/0"}, cache.PurgeOptions{}); err != nil && !errors.Is(err, cache.ErrClosed) {
			t.Errorf("Purge: %v", err)
		}
	})
	await := func(n int) {
		for range n {
			<-ticks
		}
	}
	await(10 + round)
	shut := make(chan error)
	go func() {
		err := c.Close(context.Background())
		o.closed.Store(true)
		shut <- err
	}()
	for open := true; open; {
		select {
		case <-ticks:
		case err := <-shut:
			open = false
			if err != nil {
				t.Errorf("Close: %v", err)
			}
		}
	}
	await(50)
	close(stop)
	wg.Wait()
	if n := o.late.Load(); n != 0 {
		t.Errorf("%d fills began after Close", n)
	}
	if n := c.Stats().Fills; n != 0 {
		t.Errorf("%d fills are left", n)
	}
}

// TestNoFillBeginsAfterClose: a request that was looking in the store when Close began is answered, by the origin, without a fill.
func TestNoFillBeginsAfterClose(t *testing.T) {
	for name, c := range map[string]struct {
		wait time.Duration // before the request
		want string
	}{
		"miss":            {0, "v1"},
		"stale":           {5 * time.Second, "v1"},
		"must revalidate": {time.Hour, "v2"},
	} {
		t.Run(name, func(t *testing.T) {
			var s *gatedStore
			o := &closing{}
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(cfg *cache.Config) {
					s = &gatedStore{Store: cfg.Store}
					cfg.Store, cfg.Observer = s, o
				})
				r.origin.set(after(0, numbered("Cache-Control: max-age=1, stale-while-revalidate=60")))
				if c.wait > 0 {
					r.get("/a")
					time.Sleep(c.wait)
				}
				gate := make(chan struct{})
				var once sync.Once
				s.hold(nil, func(string) { once.Do(func() { <-gate }) })
				done := make(chan *httptest.ResponseRecorder)
				go func() { done <- r.get("/a") }()
				synctest.Wait()
				shut := make(chan error)
				go func() { shut <- r.c.Close(context.Background()) }()
				synctest.Wait()
				select {
				case err := <-shut: // the request holds nothing up
					o.closed.Store(true)
					close(gate)
					wantBody(t, <-done, 200, c.want)
					if err != nil {
						t.Errorf("Close: %v", err)
					}
				default: // Close waits for it
					close(gate)
					wantBody(t, <-done, 200, c.want)
					if err := <-shut; err != nil {
						t.Errorf("Close: %v", err)
					}
					o.closed.Store(true)
				}
				synctest.Wait()
				if n := o.late.Load(); n != 0 {
					t.Errorf("%d fills began after Close", n)
				}
				if s := r.c.Stats(); s.Fills != 0 {
					t.Errorf("%d fills run", s.Fills)
				}
			})
		})
	}
}
