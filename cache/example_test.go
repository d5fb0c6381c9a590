package cache_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/memory"
	"github.com/swrproxy/swrproxy/policy"
)

// Middleware in front of a handler of the same process: the second request does not reach it.
func ExampleCache_Handler() {
	store, err := memory.New(memory.Options{Max: 64 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := cache.New(cache.Config{Store: store})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close(context.Background())

	calls := 0
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++
		w.Header().Set("Cache-Control", "max-age=60, stale-while-revalidate=600")
		fmt.Fprintf(w, "rendered %d", calls)
	})
	h := c.Handler(page)
	for range 2 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "http://example.org/", nil))
		fmt.Println(w.Body)
	}
	// Output:
	// rendered 1
	// rendered 1
}

// A caching client: answers of a slow API are kept for a minute although it states no freshness.
func ExampleCache_Transport() {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "forty-two")
	}))
	defer api.Close()
	store, err := memory.New(memory.Options{Max: 64 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := cache.New(cache.Config{
		Store: store,
		Rules: []cache.Rule{{Name: "api", Policy: policy.Settings{TTL: time.Minute, StaleIfError: time.Hour}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close(context.Background())

	client := &http.Client{Transport: c.Transport(nil)}
	for range 2 {
		resp, err := client.Get(api.URL)
		if err != nil {
			fmt.Println(err)
			return
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		fmt.Printf("%s, age %q\n", body, resp.Header.Get("Age"))
	}
	// Output:
	// forty-two, age ""
	// forty-two, age "0"
}

// A purge by tag reaches every response that was stored with it.
func ExampleCache_Purge() {
	store, err := memory.New(memory.Options{Max: 64 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := cache.New(cache.Config{Store: store})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close(context.Background())
	h := c.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		w.Header().Set("Surrogate-Key", "product-7 products")
	}))
	for _, path := range []string{"/a", "/b"} {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "http://example.org"+path, nil))
	}
	res, err := c.Purge(context.Background(), cache.Selector{Tags: []string{"product-7"}}, cache.PurgeOptions{})
	fmt.Println(res.Records, err)
	// Output:
	// 2 <nil>
}
