package cache_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swrproxy/swrproxy/cache"
)

// TestSoftPurgeDoesNotChooseAnotherVariant: RFC 9111 §4.1. Of two stored responses that match a request the most recent is used, also after a soft purge, which
// makes the one of a shorter lifetime look younger.
func TestSoftPurgeDoesNotChooseAnotherVariant(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(func(n int, _ *http.Request) (*http.Response, error) {
			if n == 1 {
				return response(200, "older", "Cache-Control: max-age=30, stale-while-revalidate=600", "Vary: Accept"), nil
			}
			return response(200, "newer", "Cache-Control: max-age=6000, stale-while-revalidate=600", "Vary: Accept-Language"), nil
		})
		r.get("/v", "Accept: a", "Accept-Language: de")
		time.Sleep(5 * time.Second)
		r.get("/v", "Accept: b", "Accept-Language: de")
		wantBody(t, r.get("/v", "Accept: a", "Accept-Language: de"), 200, "newer")
		r.purge(cache.Selector{All: true}, cache.PurgeOptions{Soft: true})
		wantBody(t, r.get("/v", "Accept: a", "Accept-Language: de"), 200, "newer")
		synctest.Wait()
	})
}
