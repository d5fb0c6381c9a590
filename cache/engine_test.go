package cache_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/memory"
)

// script is an origin whose answers a test writes, one call at a time.
type script struct {
	mu    sync.Mutex // guards following
	calls int
	do    func(call int, r *http.Request) (*http.Response, error)
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.calls++
	n, do := s.calls, s.do
	s.mu.Unlock()
	return do(n, r)
}

func (s *script) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *script) set(do func(call int, r *http.Request) (*http.Response, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.do = do
}

// response makes an origin's response; fields are "Name: value".
func response(status int, body string, fields ...string) *http.Response {
	h := http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		h.Add(name, value)
	}
	return &http.Response{
		StatusCode: status, Header: h, ContentLength: int64(len(body)),
		Body: wholeBody{strings.NewReader(body)},
	}
}

// wholeBody can be read without waiting.
type wholeBody struct{ *strings.Reader }

func (wholeBody) Close() error { return nil }

// after answers after d, unless the request's context ends first.
func after(d time.Duration, f func(call int, r *http.Request) *http.Response) func(int, *http.Request) (*http.Response, error) {
	return func(n int, r *http.Request) (*http.Response, error) {
		select {
		case <-time.After(d):
			return f(n, r), nil
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		}
	}
}

// numbered answers with the number of the call as body.
func numbered(fields ...string) func(int, *http.Request) *http.Response {
	return func(n int, _ *http.Request) *http.Response {
		return response(200, fmt.Sprint("v", n), fields...)
	}
}

// rig is a cache with a scripted origin, in a synctest bubble.
type rig struct {
	t      *testing.T
	c      *cache.Cache
	h      http.Handler
	origin *script
	notes  *notes
	store  *memory.Store
}

// notes collects what the cache reports.
type notes struct {
	mu     sync.Mutex // guards following
	reads  []cache.ReadEvent
	fills  []cache.FillEvent
	others []cache.Note
}

func (n *notes) ReadDone(e *cache.ReadEvent) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reads = append(n.reads, *e)
}

func (n *notes) FillStarted(*cache.FillEvent) {}

func (n *notes) FillDone(e *cache.FillEvent) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fills = append(n.fills, *e)
}

func (n *notes) Noted(e *cache.Note) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.others = append(n.others, *e)
}

// onMemory is a cache on a memory store with a budget in bytes. Who calls it closes it.
func onMemory(tb testing.TB, budget int64, cfg cache.Config) (*cache.Cache, *memory.Store) {
	tb.Helper()
	store, err := memory.New(memory.Options{Max: budget})
	if err != nil {
		tb.Fatal(err)
	}
	cfg.Store = store
	c, err := cache.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return c, store
}

func newRig(t *testing.T, change func(*cache.Config)) *rig {
	t.Helper()
	store, err := memory.New(memory.Options{Max: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, store: store, origin: &script{}, notes: &notes{}}
	cfg := cache.Config{Store: store, Observer: r.notes, Fill: cache.FillConfig{Tenure: 3 * time.Second}}
	if change != nil {
		change(&cfg)
	}
	r.c, err = cache.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.h = r.c.Proxy(r.origin)
	return r
}

// close ends the cache inside the bubble.
func (r *rig) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	if err := r.c.Close(ctx); err != nil {
		r.t.Errorf("close: %v", err)
	}
}

// get asks for a path; fields are "Name: value".
func (r *rig) get(path string, fields ...string) *httptest.ResponseRecorder {
	return r.do(context.Background(), http.MethodGet, path, fields...)
}

func (r *rig) do(ctx context.Context, method, path string, fields ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequestWithContext(ctx, method, "http://example.org"+path, nil)
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		if name == "Host" {
			req.Host = value
			continue
		}
		req.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	func() {
		defer func() {
			if p := recover(); p != nil {
				if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
					panic(p)
				}
				w.Code = 0 // the connection was cut
			}
		}()
		r.h.ServeHTTP(w, req)
	}()
	return w
}

// burst sends n requests at once and returns their answers when all are there.
func (r *rig) burst(n int, path string, fields ...string) []*httptest.ResponseRecorder {
	out := make([]*httptest.ResponseRecorder, n)
	var wg sync.WaitGroup
	for i := range out {
		wg.Go(func() { out[i] = r.get(path, fields...) })
	}
	wg.Wait()
	return out
}

func (r *rig) wantCalls(n int) {
	r.t.Helper()
	if got := r.origin.count(); got != n {
		r.t.Errorf("origin calls = %d, want %d", got, n)
	}
}

func wantBody(t *testing.T, w *httptest.ResponseRecorder, status int, body string) {
	t.Helper()
	if w.Code != status || w.Body.String() != body {
		t.Errorf("got %d %q (%s), want %d %q", w.Code, w.Body, w.Header().Get("Cache-Status"), status, body)
	}
}

// bubble runs f in a synctest bubble with a rig that is closed at its end: once with an origin that needs a goroutine for each fill, and once
// with one that lets a fill begin on its reader's.
func bubble(t *testing.T, change func(*cache.Config), f func(t *testing.T, r *rig)) {
	for name, upstream := range map[string]func(*script) http.RoundTripper{
		"apart": func(s *script) http.RoundTripper { return s },
		"here":  func(s *script) http.RoundTripper { return twoParts{s} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, change)
				r.h = r.c.Proxy(upstream(r.origin))
				defer r.close()
				f(t, r)
			})
		})
	}
}

func TestColdKeyIsFetchedOnce(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(after(500*time.Millisecond, numbered("Cache-Control: max-age=60")))
		start := time.Now()
		for _, w := range r.burst(300, "/a") {
			wantBody(t, w, 200, "v1")
		}
		if took := time.Since(start); took != 500*time.Millisecond {
			t.Errorf("took %v", took)
		}
		r.wantCalls(1)
	})
}

func TestStaleIsServedWhileOneRefreshRuns(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(after(500*time.Millisecond, numbered("Cache-Control: max-age=1, stale-while-revalidate=60")))
		r.get("/a")
		time.Sleep(2 * time.Second)
		start := time.Now()
		for _, w := range r.burst(300, "/a") {
			wantBody(t, w, 200, "v1")
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("stale reads took %v", took)
		}
		time.Sleep(600 * time.Millisecond)
		r.wantCalls(2)
		wantBody(t, r.get("/a"), 200, "v2")
		r.wantCalls(2)
	})
}

func TestExpiredWithoutWindowWaitsForOneFill(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(after(500*time.Millisecond, numbered("Cache-Control: max-age=1")))
		r.get("/a")
		time.Sleep(2 * time.Second)
		for _, w := range r.burst(300, "/a") {
			wantBody(t, w, 200, "v2")
		}
		r.wantCalls(2)
	})
}

func TestFailedRefreshBacksOffAndRecovers(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(after(0, numbered("Cache-Control: max-age=1, stale-while-revalidate=3600")))
		r.get("/a")
		time.Sleep(2 * time.Second)
		r.origin.set(after(150*time.Millisecond, func(int, *http.Request) *http.Response { return response(503, "down") }))
		for range 60 * 100 {
			wantBody(t, r.get("/a"), 200, "v1")
			time.Sleep(10 * time.Millisecond)
		}
		if n := r.origin.count() - 1; n < 4 || n > 9 {
			t.Errorf("%d attempts in a minute", n)
		}
		r.origin.set(after(0, numbered("Cache-Control: max-age=1, stale-while-revalidate=3600")))
		time.Sleep(80 * time.Second)
		r.get("/a")
		synctest.Wait()
		if got := r.get("/a").Body.String(); got == "v1" {
			t.Error("did not recover")
		}
	})
}

func TestHungRefreshLosesItsKeyAtTheTenure(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(after(0, numbered("Cache-Control: max-age=1, stale-while-revalidate=3600")))
		r.get("/a")
		time.Sleep(2 * time.Second)
		r.origin.set(func(n int, req *http.Request) (*http.Response, error) {
			if n == 2 {
				<-req.Context().Done()
				return nil, context.Cause(req.Context())
			}
			return numbered("Cache-Control: max-age=60")(n, req), nil
		})
		for range 29 {
			wantBody(t, r.get("/a"), 200, "v1")
			time.Sleep(100 * time.Millisecond)
		}
		r.wantCalls(2)
		time.Sleep(200 * time.Millisecond)
		wantBody(t, r.get("/a"), 200, "v1")
		synctest.Wait()
		r.wantCalls(3)
		wantBody(t, r.get("/a"), 200, "v3")
	})
}

func TestOlderAnswerNeverReplacesANewer(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(after(0, numbered("Cache-Control: max-age=1, stale-while-revalidate=3600")))
		r.get("/a")
		time.Sleep(2 * time.Second)
		r.origin.set(func(n int, req *http.Request) (*http.Response, error) {
			if n == 2 {
				time.Sleep(5 * time.Second)
			}
			return numbered("Cache-Control: max-age=600")(n, req), nil
		})
		r.get("/a")
		time.Sleep(3100 * time.Millisecond)
		r.get("/a")
		synctest.Wait()
		wantBody(t, r.get("/a"), 200, "v3")
		time.Sleep(5 * time.Second)
		wantBody(t, r.get("/a"), 200, "v3")
		r.wantCalls(3)
	})
}

func TestColdFailureIsShared(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(after(150*time.Millisecond, func(int, *http.Request) *http.Response { return response(503, "down") }))
		start := time.Now()
		for _, w := range r.burst(100, "/a") {
			wantBody(t, w, 503, "down")
		}
		if took := time.Since(start); took != 150*time.Millisecond {
			t.Errorf("took %v", took)
		}
		r.wantCalls(1)
	})
}

func TestConnectionFailureIsShared(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(func(int, *http.Request) (*http.Response, error) {
			time.Sleep(150 * time.Millisecond)
			return nil, errors.New("refused")
		})
		for _, w := range r.burst(100, "/a") {
			if w.Code != 502 {
				t.Errorf("status %d", w.Code)
			}
		}
		r.wantCalls(1)
	})
}

func TestLeaderLeavesOthersGetTheBody(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(after(time.Second, numbered("Cache-Control: max-age=60")))
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { r.do(ctx, "GET", "/a") })
		synctest.Wait()
		wg.Go(func() {
			for _, w := range r.burst(20, "/a") {
				wantBody(t, w, 200, "v1")
			}
		})
		synctest.Wait()
		cancel()
		wg.Wait()
		r.wantCalls(1)
	})
}

func TestPrivateAnswersAreNotQueuedFor(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(after(300*time.Millisecond, numbered("Cache-Control: private, no-store")))
		rounds := []time.Duration{600 * time.Millisecond, 300 * time.Millisecond}
		bodies := make(map[string]bool)
		for i, want := range rounds {
			start := time.Now()
			for _, w := range r.burst(50, "/a") {
				bodies[w.Body.String()] = true
			}
			if took := time.Since(start); took != want {
				t.Errorf("round %d took %v, want %v", i, took, want)
			}
		}
		if len(bodies) != 100 {
			t.Errorf("%d different bodies, want 100", len(bodies))
		}
	})
}

func TestClientLeavesRightAfterItsStaleAnswer(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(after(500*time.Millisecond, numbered("Cache-Control: max-age=1, stale-while-revalidate=60")))
		r.get("/a")
		time.Sleep(2 * time.Second)
		ctx, cancel := context.WithCancel(context.Background())
		wantBody(t, r.do(ctx, "GET", "/a"), 200, "v1")
		cancel()
		time.Sleep(900 * time.Millisecond) // v2 is fresh for another tenth: half a second of its age is the origin's
		wantBody(t, r.get("/a"), 200, "v2")
		r.wantCalls(2)
	})
}

func TestStaleIfErrorAndMustRevalidate(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		down := false
		r.origin.set(func(n int, req *http.Request) (*http.Response, error) {
			if down {
				return nil, errors.New("refused")
			}
			cc := "max-age=1, stale-if-error=600"
			if req.URL.Path == "/must" {
				cc = "max-age=1, must-revalidate"
			}
			return response(200, "good", "Cache-Control: "+cc), nil
		})
		r.get("/sie")
		r.get("/must")
		down = true
		time.Sleep(3 * time.Second)
		for range 10 {
			wantBody(t, r.get("/sie"), 200, "good")
			time.Sleep(59 * time.Second)
		}
		if w := r.get("/must"); w.Code != 504 {
			t.Errorf("must-revalidate: %d", w.Code)
		}
		time.Sleep(time.Minute)
		if w := r.get("/sie"); w.Code == 200 {
			t.Error("stale-if-error lasted for ever")
		}
	})
}

func TestVaryRegroupsWaiters(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(after(time.Second, func(_ int, req *http.Request) *http.Response {
			return response(200, req.Header.Get("Accept-Language"), "Cache-Control: max-age=60", "Vary: Accept-Language")
		}))
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 60 {
			lang := fmt.Sprintf("l%c", 'a'+i%20)
			wg.Go(func() { wantBody(t, r.get("/a", "Accept-Language: "+lang), 200, lang) })
		}
		wg.Wait()
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("took %v", took)
		}
		r.wantCalls(20)
		for i := range 20 {
			lang := fmt.Sprintf("l%c", 'a'+i)
			wantBody(t, r.get("/a", "Accept-Language: "+lang), 200, lang)
		}
		r.wantCalls(20)
	})
}

func TestConfirmedByValidator(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(after(0, func(n int, req *http.Request) *http.Response {
			if req.Header.Get("If-None-Match") == `"a"` {
				return response(304, "", `ETag: "a"`, "Cache-Control: max-age=60")
			}
			return response(200, "body", `ETag: "a"`, "Cache-Control: max-age=2", "Content-Type: application/json")
		}))
		wantBody(t, r.get("/a"), 200, "body")
		time.Sleep(3 * time.Second)
		w := r.get("/a")
		wantBody(t, w, 200, "body")
		if w.Header().Get("Content-Type") != "application/json" {
			t.Error("304 lost Content-Type")
		}
		time.Sleep(30 * time.Second)
		wantBody(t, r.get("/a"), 200, "body")
		r.wantCalls(2)
		if w := r.get("/a", `If-None-Match: "a"`); w.Code != 304 || w.Body.Len() != 0 {
			t.Errorf("condition: %d %q", w.Code, w.Body)
		}
	})
}

func TestTruncatedBodyIsNotStored(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(func(n int, req *http.Request) (*http.Response, error) {
			resp := response(200, "whole", "Cache-Control: max-age=60")
			if n == 1 {
				resp.Body = io.NopCloser(io.MultiReader(strings.NewReader("who"), errReader{io.ErrUnexpectedEOF}))
			}
			return resp, nil
		})
		if w := r.get("/a"); w.Code != 0 && w.Code != http.StatusBadGateway {
			t.Errorf("truncated answer ended cleanly: %d %q", w.Code, w.Body)
		}
		wantBody(t, r.get("/a"), 200, "whole")
		r.wantCalls(2)
	})
}

// What the store cannot take passes it by, whatever ObjectConfig.Max allows, and is not called stored where its length is known.
func TestLargerThanTheStoreTakes(t *testing.T) {
	bubble(t, func(cfg *cache.Config) { cfg.Object.Max = 1 << 30 }, func(t *testing.T, r *rig) {
		limit := int(r.store.BodyLimit())
		for path, c := range map[string]struct {
			size   int
			known  bool // its length
			stored bool // so says Cache-Status
			calls  int  // for two requests
		}{
			"/fits":    {limit, true, true, 1},
			"/larger":  {limit + 1, true, false, 2},
			"/unknown": {limit + 1, false, true, 2},
		} {
			body := strings.Repeat("x", c.size)
			r.origin.set(func(int, *http.Request) (*http.Response, error) {
				resp := response(200, body, "Cache-Control: max-age=60")
				if !c.known {
					resp.ContentLength = -1
				}
				return resp, nil
			})
			before := r.origin.count()
			for try := range 2 {
				w := r.get(path)
				if w.Code != 200 || w.Body.Len() != c.size {
					t.Errorf("%s: %d, %d bytes", path, w.Code, w.Body.Len())
				}
				if status := w.Header().Get("Cache-Status"); try == 0 && strings.Contains(status, "stored") != c.stored {
					t.Errorf("%s: %q", path, status)
				}
			}
			if n := r.origin.count() - before; n != c.calls {
				t.Errorf("%s: %d calls, want %d", path, n, c.calls)
			}
		}
	})
}

// Large bodies on their way into a memory tier have a quarter of it, one of them at least. What does not fit reaches its reader and is not stored.
func TestRoomForLargeBodies(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		size := int(r.store.BodyLimit() / 6)
		body := strings.Repeat("x", size)
		r.origin.set(func(_ int, req *http.Request) (*http.Response, error) {
			resp := response(200, body, "Cache-Control: max-age=60")
			resp.Body = io.NopCloser(io.MultiReader(strings.NewReader(body[1:]), sleepReader(time.Second), strings.NewReader(body[:1])))
			switch req.URL.Path {
			case "/unknown":
				resp.ContentLength = -1
			case "/huge":
				huge := strings.Repeat(body, 5)
				resp.ContentLength, resp.Body = int64(len(huge)), io.NopCloser(strings.NewReader(huge))
			}
			return resp, nil
		})
		get := func(path, says string) {
			t.Helper()
			w := r.get(path)
			if status := w.Header().Get("Cache-Status"); w.Code != 200 || w.Body.Len() < size || !strings.Contains(status, says) {
				t.Errorf("%s: %d, %d bytes, %s; want %s", path, w.Code, w.Body.Len(), status, says)
			}
		}
		hits := func(path string) { // and makes room in the store
			t.Helper()
			get(path, "hit")
			if _, err := r.c.Purge(t.Context(), cache.Selector{All: true}, cache.PurgeOptions{}); err != nil {
				t.Error(err)
			}
		}
		var wg sync.WaitGroup
		meanwhile := func(path string, f func()) { // all but a byte of its body is there
			wg.Go(func() { get(path, "stored") })
			synctest.Wait()
			f()
			wg.Wait()
			hits(path)
		}
		get("/huge", "stored") // nothing else is on its way
		hits("/huge")
		meanwhile("/a", func() { get("/known", "detail=no-room") })
		get("/known", "stored") // it is not remembered as one that cannot be shared
		hits("/known")
		meanwhile("/b", func() { get("/unknown", "stored") })
		get("/unknown", "fwd=") // that was more than could be held
		hits("/unknown")
		if used := r.c.SpoolsHeld(); used != 0 {
			t.Errorf("%d bytes are still counted", used)
		}
	})
}

// A body that breaks off before anything was sent is answered as other failures are: with the stored response where that is allowed, else 502.
func TestBrokenBodyBeforeAnythingWasSent(t *testing.T) {
	for name, c := range map[string]struct{ method, control string }{
		"unshared": {"GET", "no-store"}, "pass": {"POST", "no-store"}, "shared": {"GET", "max-age=60"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, r *rig) {
				good := response(200, "good", "Cache-Control: max-age=1, stale-if-error=3600")
				r.origin.set(func(n int, req *http.Request) (*http.Response, error) {
					if n == 1 {
						return good, nil
					}
					resp := response(200, "", "Cache-Control: "+c.control, "X-Broken: 1")
					resp.ContentLength = 1000
					resp.Body = io.NopCloser(errReader{io.ErrUnexpectedEOF})
					return resp, nil
				})
				wantBody(t, r.get("/known"), 200, "good")
				time.Sleep(2 * time.Second)
				// Who is faster than a shared body sees it break off.
				faster := func(w *httptest.ResponseRecorder) bool { return name == "shared" && w.Code == 0 }
				w := r.do(t.Context(), c.method, "/new")
				if faster(w) {
					return
				}
				wantBody(t, w, http.StatusBadGateway, "502 Bad Gateway\n")
				if c.method == "GET" {
					if w = r.get("/known"); faster(w) {
						return
					}
					wantBody(t, w, 200, "good")
				}
				if w.Header().Get("X-Broken") != "" || strings.Contains(w.Header().Get("Cache-Status"), "stored") {
					t.Errorf("fields of the broken response: %v", w.Header())
				}
			})
		})
	}
}

// A failure is for those who waited for it. Who comes when its head is known already asks again, and gets the origin's own answer.
func TestLateForAFailure(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(func(int, *http.Request) (*http.Response, error) {
			resp := response(503, "down")
			resp.Body = io.NopCloser(io.MultiReader(strings.NewReader("do"), sleepReader(time.Second), strings.NewReader("wn")))
			return resp, nil
		})
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Second / 4)
				wantBody(t, r.get("/a"), 503, "down")
			})
		}
		wg.Wait()
		r.wantCalls(2)
	})
}

type errReader struct{ err error }

func (e errReader) Read([]byte) (int, error) { return 0, e.err }

func TestUnsafeMethodInvalidates(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(after(0, numbered("Cache-Control: max-age=600")))
		wantBody(t, r.get("/a"), 200, "v1")
		r.do(context.Background(), "POST", "/a")
		wantBody(t, r.get("/a"), 200, "v3")
	})
}

func TestSharedOnArrivalThoughStaleAtOnce(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(after(time.Second, numbered("Cache-Control: public, max-age=0", `ETag: "x"`)))
		for _, w := range r.burst(50, "/a") {
			wantBody(t, w, 200, "v1")
		}
		r.wantCalls(1)
	})
}

func TestHeadDoesNotMakeAGet(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(after(0, numbered("Cache-Control: max-age=60")))
		r.do(context.Background(), "HEAD", "/a")
		wantBody(t, r.get("/a"), 200, "v2")
		w := r.do(context.Background(), "HEAD", "/a")
		if w.Code != 200 || w.Body.Len() != 0 || w.Header().Get("Content-Length") != "2" {
			t.Errorf("HEAD: %d %v", w.Code, w.Header())
		}
		r.wantCalls(2)
	})
}

func TestRangeFromStoredBody(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(after(0, func(int, *http.Request) *http.Response {
			return response(200, "0123456789", "Cache-Control: max-age=60")
		}))
		wantBody(t, r.get("/a", "Range: bytes=2-4"), 206, "234")
		wantBody(t, r.get("/a", "Range: bytes=-3"), 206, "789")
		wantBody(t, r.get("/a", "Range: bytes=10-"), 416, "")
		wantBody(t, r.get("/a"), 200, "0123456789")
		r.wantCalls(1)
	})
}

func TestWaiterGivesUpAtItsLimit(t *testing.T) {
	bubble(t, func(c *cache.Config) { c.Fill.Wait = 2 * time.Second }, func(t *testing.T, r *rig) {
		r.origin.set(after(20*time.Second, numbered("Cache-Control: max-age=60")))
		var wg sync.WaitGroup
		wg.Go(func() { r.get("/a") })
		synctest.Wait()
		start := time.Now()
		if w := r.get("/a"); w.Code != 504 {
			t.Errorf("status %d", w.Code)
		}
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("took %v", took)
		}
		wg.Wait()
	})
}

func TestMiddlewareAndTransport(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		calls := 0
		next := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			calls++
			w.Header().Set("Cache-Control", "max-age=60")
			fmt.Fprint(w, "hello ", req.URL.Path)
		})
		r.h = r.c.Handler(next)
		wantBody(t, r.get("/m"), 200, "hello /m")
		wantBody(t, r.get("/m"), 200, "hello /m")
		if calls != 1 {
			t.Errorf("handler called %d times", calls)
		}
		r.origin.set(after(0, numbered("Cache-Control: max-age=60")))
		client := &http.Client{Transport: r.c.Transport(r.origin)}
		for range 2 {
			resp, err := client.Get("http://example.net/t")
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if string(b) != "v1" {
				t.Errorf("body %q", b)
			}
		}
		r.wantCalls(1)
	})
}
