package cache_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	"github.com/swrproxy/swrproxy/cache"
)

// summed answers with a chunked body and a trailer that says how long it was: RFC 9110 §6.5.
func summed(control string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", control)
		w.Header().Set("Trailer", "X-Length, X-Path")
		for range 3 {
			_, _ = io.WriteString(w, r.URL.Path)
			_ = http.NewResponseController(w).Flush()
		}
		w.Header().Set("X-Length", strconv.Itoa(3*len(r.URL.Path)))
		w.Header().Set("X-Path", r.URL.Path)
	})
}

// TestTrailerArrivesWhileTheHeadIsSent: RFC 9110 §6.5.1. An origin's trailer reaches its reader, those who join, and later hits, whatever upstream
// it comes by; the race detector watches, for a map that two goroutines use ends the process.
func TestTrailerArrivesWhileTheHeadIsSent(t *testing.T) {
	for _, control := range []string{"max-age=600", "no-store", "private"} {
		origin := httptest.NewServer(summed(control))
		defer origin.Close()
		for name, front := range map[string]func(c *cache.Cache) http.Handler{
			"handler": func(c *cache.Cache) http.Handler { return c.Handler(summed(control)) },
			"proxy":   func(c *cache.Cache) http.Handler { return c.Proxy(via(origin)) },
			"transport": func(c *cache.Cache) http.Handler {
				return passThrough(c.Transport(origin.Client().Transport), origin)
			},
		} {
			t.Run(name+" "+control, func(t *testing.T) {
				c, _ := onMemory(t, 16<<20, cache.Config{})
				defer c.Close(t.Context())
				server := httptest.NewServer(front(c))
				defer server.Close()
				var wg sync.WaitGroup
				for i := range 60 {
					wg.Go(func() { wantTrailer(t, server, fmt.Sprint("/", i/3)) })
				}
				wg.Wait()
				for i := range 20 {
					wantTrailer(t, server, fmt.Sprint("/", i))
				}
			})
		}
	}
}

func wantTrailer(t *testing.T, server *httptest.Server, path string) {
	t.Helper()
	resp, err := server.Client().Get(server.URL + path)
	if err != nil {
		t.Error(err)
		return
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || string(b) != path+path+path {
		t.Errorf("%s: %q, %v", path, b, err)
	}
	if got := resp.Trailer; got.Get("X-Length") != strconv.Itoa(len(b)) || got.Get("X-Path") != path || len(got) != 2 {
		t.Errorf("%s (%s): trailer %v", path, resp.Header.Get("Cache-Status"), got)
	}
}

// via reaches an origin whatever the request's host.
func via(origin *httptest.Server) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		out := r.Clone(r.Context())
		out.URL.Scheme, out.URL.Host, out.RequestURI = "http", origin.Listener.Addr().String(), ""
		return origin.Client().Transport.RoundTrip(out)
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// passThrough answers with what a client-side cache returns, trailers included.
func passThrough(up http.RoundTripper, origin *httptest.Server) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out, err := http.NewRequestWithContext(r.Context(), r.Method, origin.URL+r.URL.Path, nil)
		if err != nil {
			panic(err)
		}
		resp, err := up.RoundTrip(out)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		for name, lines := range resp.Header {
			w.Header()[name] = lines
		}
		for name := range resp.Trailer {
			w.Header().Add("Trailer", name)
		}
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
		for name, lines := range resp.Trailer {
			w.Header()[name] = lines
		}
	})
}
