package cache_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swrproxy/swrproxy/cache"
)

// TestRunnersRest: fills one after another share a goroutine, which ends when there are no more, closed cache or not.
func TestRunnersRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := onMemory(t, 1<<20, cache.Config{})
		h := c.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Cache-Control", "max-age=60") }))
		for i := range 10 {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/"+strconv.Itoa(i), nil))
			synctest.Wait()
		}
		if n := c.Resting(); n != 1 {
			t.Errorf("%d runners rest after ten fills in a row, want 1", n)
		}
		time.Sleep(2 * time.Second)
		if n := c.Resting(); n != 0 {
			t.Errorf("%d runners rest after a second, want 0", n)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
