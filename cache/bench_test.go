package cache_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/memory"
)

// discard is a ResponseWriter that keeps nothing but its header map.
type discard struct{ h http.Header }

func (d *discard) Header() http.Header         { return d.h }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }

func benchCache(b *testing.B, origin http.RoundTripper) http.Handler {
	b.Helper()
	c, _ := benchStore(b, 256<<20)
	return c.Proxy(origin)
}

// benchStore is onMemory, closed with b.
func benchStore(b *testing.B, budget int64) (*cache.Cache, *memory.Store) {
	b.Helper()
	c, store := onMemory(b, budget, cache.Config{})
	b.Cleanup(func() { c.Close(b.Context()) })
	return c, store
}

type instant string

func (s instant) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode:    200,
		Header:        http.Header{"Cache-Control": {"max-age=600"}, "Content-Type": {"text/html"}, "Date": {time.Now().UTC().Format(http.TimeFormat)}, "Etag": {`"x"`}},
		Body:          io.NopCloser(strings.NewReader(string(s))),
		ContentLength: int64(len(s)),
	}, nil
}

// BenchmarkHit is a fresh hit on the ordinary path, without net/http's own work.
func BenchmarkHit(b *testing.B) {
	h := benchCache(b, instant(strings.Repeat("x", 1024)))
	r := httptest.NewRequest("GET", "http://example.org/a", nil)
	w := &discard{h: make(http.Header)}
	h.ServeHTTP(w, r)
	b.ReportAllocs()
	for b.Loop() {
		clear(w.h)
		h.ServeHTTP(w, r)
	}
}

// BenchmarkMiss is a cacheable miss with an origin that answers at once: what the engine itself costs.
func BenchmarkMiss(b *testing.B) {
	h := benchCache(b, instant(strings.Repeat("x", 1024)))
	w := &discard{h: make(http.Header)}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		clear(w.h)
		h.ServeHTTP(w, httptest.NewRequest("GET", fmt.Sprint("http://example.org/", n), nil))
	}
}
