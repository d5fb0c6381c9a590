package cache_test

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/memory"
)

// runnersNow counts the goroutines that run fills or rest between two.
func runnersNow() int {
	buf := make([]byte, 1<<20)
	return strings.Count(string(buf[:runtime.Stack(buf, true)]), "cache.(*runners).runner(")
}

// TestRunnersRest: fills one after another share a goroutine, which ends when there are no more, closed cache or not.
func TestRunnersRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := memory.New(memory.Options{Max: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		c, err := cache.New(cache.Config{Store: store})
		if err != nil {
			t.Fatal(err)
		}
		h := c.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Cache-Control", "max-age=60") }))
		before := runnersNow()
		for i := range 10 {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/"+strconv.Itoa(i), nil))
			synctest.Wait()
		}
		if n := runnersNow() - before; n != 1 {
			t.Errorf("%d runners after ten fills in a row, want 1", n)
		}
		time.Sleep(2 * time.Second)
		if n := runnersNow() - before; n != 0 {
			t.Errorf("%d runners after a rest, want 0", n)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
