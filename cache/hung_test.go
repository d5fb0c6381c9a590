package cache_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swrproxy/swrproxy/cache"
)

// headTimeout is what an upstream says after headerLimit without a head.
type headTimeout struct{}

func (headTimeout) Error() string   { return "no head in time" }
func (headTimeout) StatusCode() int { return http.StatusGatewayTimeout }

const headerLimit = 30 * time.Second

func hangs(_ int, req *http.Request) (*http.Response, error) {
	select {
	case <-time.After(headerLimit):
		return nil, headTimeout{}
	case <-req.Context().Done():
		return nil, context.Cause(req.Context())
	}
}

// timed reads and tells how long that took.
func (r *rig) timed(path string, fields ...string) (status int, body string, took time.Duration) {
	began := time.Now()
	w := r.get(path, fields...)
	return w.Code, w.Body.String(), time.Since(began)
}

// RFC 5861 §4: once an origin was found to hang, readers inside stale-if-error do not wait for it one after the other.
func TestHungOriginCostsReadersOneWait(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(after(0, numbered("Cache-Control: max-age=1, stale-if-error=36000")))
		r.get("/a")
		time.Sleep(2 * time.Second)
		r.origin.set(hangs)
		var first sync.WaitGroup
		for _, want := range []time.Duration{18 * time.Second, 3 * time.Second, 3 * time.Second} { // six tenures; who waits for it, one
			first.Go(func() {
				if status, body, took := r.timed("/a"); status != 200 || body != "v1" || took != want {
					t.Errorf("%d %q after %v, want the stored response after %v", status, body, took, want)
				}
			})
			synctest.Wait()
		}
		time.Sleep(4 * time.Second)
		before, began := r.origin.count(), time.Now()
		for time.Since(began) < 10*time.Minute {
			if status, body, took := r.timed("/a"); status != 200 || body != "v1" || took != 0 {
				t.Fatalf("%v later: %d %q after %v, want the stored response at once", time.Since(began), status, body, took)
			}
			time.Sleep(250 * time.Millisecond)
		}
		first.Wait()
		if n := r.origin.count() - before; n < 5 || n > 30 {
			t.Errorf("%d background attempts in ten minutes", n)
		}
		r.origin.set(after(0, numbered("Cache-Control: max-age=600")))
		time.Sleep(76 * time.Second) // the longest back-off with its jitter
		r.get("/a")
		synctest.Wait()
		if _, body, took := r.timed("/a"); body == "v1" || took != 0 {
			t.Errorf("the origin is back: %q after %v", body, took)
		}
	})
}

// What was learnt of an origin that hung does not last: much later the origin is asked first again. Nor does it when the origin has answered.
func TestHungOriginIsAskedAgain(t *testing.T) {
	for name, between := range map[string]func(*testing.T, *rig){
		"later": func(*testing.T, *rig) { time.Sleep(5 * time.Minute) },
		"answered": func(t *testing.T, r *rig) {
			time.Sleep(5 * time.Second)
			r.origin.set(after(0, func(int, *http.Request) *http.Response { return response(500, "") }))
			r.get("/a") // in the background
			synctest.Wait()
			time.Sleep(10 * time.Second) // the back-off
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, r *rig) {
				r.origin.set(after(0, numbered("Cache-Control: max-age=1, stale-if-error=36000")))
				r.get("/a")
				time.Sleep(2 * time.Second)
				r.origin.set(hangs)
				r.get("/a")
				between(t, r)
				r.origin.set(after(2*time.Second, numbered("Cache-Control: max-age=60")))
				if _, body, took := r.timed("/a"); body == "v1" || took != 2*time.Second {
					t.Errorf("%q after %v, want the new response after 2 s", body, took)
				}
			})
		})
	}
}

// RFC 9111 §5.2.2.2: whose record forbids it, gets nothing stale from a hung origin.
func TestHungOriginWithoutAWindow(t *testing.T) {
	for name, control := range map[string]string{"no window": "max-age=1", "forbidden": "max-age=1, must-revalidate"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(cfg *cache.Config) { cfg.Fill.Tenure = time.Minute }, func(t *testing.T, r *rig) {
				r.origin.set(after(0, numbered("Cache-Control: "+control)))
				r.get("/a")
				time.Sleep(2 * time.Second)
				r.origin.set(hangs)
				for range 2 {
					status, _, took := r.timed("/a")
					if status != http.StatusGatewayTimeout || took != headerLimit {
						t.Errorf("%d after %v, want 504 after %v", status, took, headerLimit)
					}
					time.Sleep(5 * time.Second)
				}
			})
		})
	}
}
