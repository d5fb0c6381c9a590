package cache_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/memory"
)

// twoParts is a script whose exchanges begin on one goroutine and may end on another, as those of origin.Pool.
type twoParts struct{ *script }

type exchanged struct {
	resp *http.Response
	err  error
}

func (s twoParts) RoundTripWithin(req *http.Request, patience time.Duration) (*http.Response, func(context.Context) (*http.Response, error), error) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(req.Context()))
	done := make(chan exchanged, 1)
	go func() {
		resp, err := s.RoundTrip(req.WithContext(ctx))
		done <- exchanged{resp, err}
	}()
	rest := func(ctx context.Context) (*http.Response, error) {
		defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
		x := <-done
		return x.resp, x.err
	}
	select {
	case x := <-done:
		if x.err == nil {
			if _, whole := x.resp.Body.(wholeBody); whole {
				return x.resp, nil, nil
			}
		}
		done <- x
	case <-time.After(patience):
	}
	return nil, rest, nil
}

func inTwoParts(t *testing.T, change func(*cache.Config), f func(t *testing.T, r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, change)
		r.h = r.c.Proxy(twoParts{r.origin})
		defer r.close()
		f(t, r)
	})
}

func at(_ int, _ *http.Request) (*http.Response, error) {
	return response(200, "x", "Cache-Control: max-age=60"), nil
}

// TestFillEndsHere: a response that comes whole at once costs no goroutine, and is stored when its reader is done.
func TestFillEndsHere(t *testing.T) {
	inTwoParts(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(at)
		wantBody(t, r.get("/a"), 200, "x")
		wantBody(t, r.get("/a"), 200, "x")
		r.wantCalls(1)
		synctest.Wait()
		if n := r.c.Resting(); n != 0 {
			t.Errorf("%d runners, want none", n)
		}
		if s := r.c.Stats(); s.Fills != 0 {
			t.Errorf("%d fills run, want none", s.Fills)
		}
	})
}

// TestFillGoesOnElsewhere: a reader does not run its fill for longer than patience, so that it can leave.
func TestFillGoesOnElsewhere(t *testing.T) {
	inTwoParts(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(after(time.Second, numbered("Cache-Control: max-age=60")))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		if w := r.do(ctx, http.MethodGet, "/a"); w.Code != 0 {
			t.Errorf("status %d, want a cut", w.Code)
		}
		if took := time.Since(began); took != 100*time.Millisecond {
			t.Errorf("the reader left after %v, want 100ms", took)
		}
		time.Sleep(time.Second)
		wantBody(t, r.get("/a"), 200, "v1")
		r.wantCalls(1)
	})
}

// TestFillPanicsHere: a panic gives the key and the origin's place back.
func TestFillPanicsHere(t *testing.T) {
	inTwoParts(t, func(cfg *cache.Config) { cfg.Fill.Concurrency = 1 }, func(t *testing.T, r *rig) {
		r.h = r.c.Proxy(panicking{r.origin})
		for range 2 {
			if w := r.get("/a"); w.Code != http.StatusBadGateway {
				t.Errorf("status %d, want 502", w.Code)
			}
		}
		r.h = r.c.Proxy(twoParts{r.origin})
		r.origin.set(at)
		wantBody(t, r.get("/a"), 200, "x")
	})
}

type panicking struct{ *script }

func (panicking) RoundTripWithin(*http.Request, time.Duration) (*http.Response, func(context.Context) (*http.Response, error), error) {
	panic("no")
}

// TestFillFailsHere: an error that comes at once is the reader's answer.
func TestFillFailsHere(t *testing.T) {
	inTwoParts(t, nil, func(t *testing.T, r *rig) {
		r.h = r.c.Proxy(refusing{r.origin})
		if w := r.get("/a"); w.Code != http.StatusBadGateway || !strings.Contains(w.Header().Get("Cache-Status"), "origin") {
			t.Errorf("status %d, %s", w.Code, w.Header().Get("Cache-Status"))
		}
	})
}

type refusing struct{ *script }

func (refusing) RoundTripWithin(*http.Request, time.Duration) (*http.Response, func(context.Context) (*http.Response, error), error) {
	return nil, nil, errors.New("refused")
}

// promptWriter is a ResponseWriter that sends when it is asked to.
type promptWriter struct {
	*httptest.ResponseRecorder
	sent func()
}

func (w promptWriter) SendNow() { w.sent() }

// goneWriter is one whose client has left.
type goneWriter struct{ promptWriter }

func (goneWriter) Write([]byte) (int, error) { return 0, errors.New("gone") }

// serve is get with a writer; false means that the answer was broken off.
func (r *rig) serve(ctx context.Context, w http.ResponseWriter, path string, fields ...string) (whole bool) {
	req := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://example.org"+path, nil)
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		req.Header.Add(name, value)
	}
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler {
			panic(p)
		}
	}()
	r.h.ServeHTTP(w, req)
	return true
}

// TestAnswerGoesFirst: a small response is sent before it is stored, and stored when its reader is done, however that ends.
func TestAnswerGoesFirst(t *testing.T) {
	for name, c := range map[string]struct {
		fields []string
		gone   bool
		body   string
		sends  int
	}{
		"whole":         {body: "x", sends: 1},
		"first bytes":   {fields: []string{"Range: bytes=0-0"}, body: "x", sends: 1},
		"other bytes":   {fields: []string{"Range: bytes=-0"}, body: "x"},
		"its condition": {fields: []string{`If-None-Match: "a"`}, sends: 1},
		"gone":          {gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			inTwoParts(t, nil, func(t *testing.T, r *rig) {
				r.origin.set(func(int, *http.Request) (*http.Response, error) {
					return response(200, "x", "Cache-Control: max-age=60", `ETag: "a"`), nil
				})
				w := promptWriter{ResponseRecorder: httptest.NewRecorder()}
				sends := 0
				w.sent = func() {
					sends++
					if got := w.Body.String(); got != c.body {
						t.Errorf("%q was written before it is sent, want %q", got, c.body)
					}
					if s := r.c.Stats(); s.Fills != 1 {
						t.Errorf("%d fills run while the answer is sent, want 1", s.Fills)
					}
				}
				var out http.ResponseWriter = w
				if c.gone {
					out = goneWriter{w}
				}
				if whole := r.serve(t.Context(), out, "/a", c.fields...); whole == c.gone {
					t.Errorf("answered %v", whole)
				}
				if sends != c.sends {
					t.Errorf("sent %d times, want %d", sends, c.sends)
				}
				wantBody(t, r.get("/a"), 200, "x")
				r.wantCalls(1)
				if s := r.c.Stats(); s.Fills != 0 {
					t.Errorf("%d fills run, want none", s.Fills)
				}
			})
		})
	}
}

// TestAnswerMeansStored: who asks after an answer was sent that says so finds the response stored, and does not go to the origin.
func TestAnswerMeansStored(t *testing.T) {
	inTwoParts(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(at)
		w := promptWriter{ResponseRecorder: httptest.NewRecorder()}
		others := make(chan *httptest.ResponseRecorder, 2)
		w.sent = func() {
			go func() { others <- r.get("/a") }()
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				others <- r.do(ctx, http.MethodGet, "/a")
			}()
			synctest.Wait()
			if len(others) > 0 {
				t.Error("another reader is answered before the response is stored")
			}
		}
		r.serve(t.Context(), w, "/a")
		wantBody(t, w.ResponseRecorder, 200, "x")
		for range cap(others) {
			other := <-others
			wantBody(t, other, 200, "x")
			if status := other.Header().Get("Cache-Status"); !strings.Contains(status, "hit") {
				t.Errorf("%s, want a hit", status)
			}
		}
		r.wantCalls(1)
	})
}

// TestOthersBehindAnswer: so do those who would not wait for a fill.
func TestOthersBehindAnswer(t *testing.T) {
	inTwoParts(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(at)
		w := promptWriter{ResponseRecorder: httptest.NewRecorder()}
		others := make(chan *httptest.ResponseRecorder, 2)
		w.sent = func() {
			go func() { others <- r.do(t.Context(), http.MethodHead, "/a") }()
			go func() { others <- r.get("/a", "Cache-Control: only-if-cached") }()
			synctest.Wait()
		}
		r.serve(t.Context(), w, "/a")
		for range cap(others) {
			if other := <-others; other.Code != 200 || !strings.Contains(other.Header().Get("Cache-Status"), "hit") {
				t.Errorf("%d %s, want a hit", other.Code, other.Header().Get("Cache-Status"))
			}
		}
		r.wantCalls(1)
	})
}

// TestPurgeBehindAnswer: who purges, or asks about, what an answer says is stored finds it.
func TestPurgeBehindAnswer(t *testing.T) {
	inTwoParts(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(at)
		w := promptWriter{ResponseRecorder: httptest.NewRecorder()}
		known, counted, purged := make(chan bool, 1), make(chan int, 1), make(chan int, 1)
		purge := func(opt cache.PurgeOptions) int {
			res, err := r.c.Purge(t.Context(), cache.Selector{URL: "http://example.org/a"}, opt)
			if err != nil {
				t.Error(err)
			}
			return res.Records
		}
		w.sent = func() {
			go func() {
				known <- r.explain("/a").Stored
				counted <- purge(cache.PurgeOptions{DryRun: true})
				purged <- purge(cache.PurgeOptions{})
			}()
			synctest.Wait()
		}
		r.serve(t.Context(), w, "/a")
		if !<-known || <-counted != 1 || <-purged != 1 {
			t.Error("what was just called stored is not found")
		}
		r.get("/a")
		r.wantCalls(2)
	})
}

// TestLeavesBehindAnswer: a client that goes once it has its answer has not given up; nor does one that waits for a commit hang on it.
func TestLeavesBehindAnswer(t *testing.T) {
	inTwoParts(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(at)
		ctx, leave := context.WithCancel(t.Context())
		w := promptWriter{ResponseRecorder: httptest.NewRecorder()}
		w.sent = func() {
			leave()
			if other := r.do(ctx, http.MethodGet, "/a"); other.Code != 0 {
				t.Errorf("status %d, want a cut", other.Code)
			}
		}
		r.serve(ctx, w, "/a")
		wantBody(t, r.get("/a"), 200, "x")
		r.wantCalls(1)
		var gone []bool
		for _, e := range r.notes.reads {
			gone = append(gone, e.ClientGone)
		}
		if want := []bool{true, false, false}; !slices.Equal(gone, want) {
			t.Errorf("clients gone %v, want %v", gone, want)
		}
	})
}

// slowStore takes a second for each record.
type slowStore struct{ *memory.Store }

func (s slowStore) Put(r *cache.Record) cache.PutResult {
	time.Sleep(time.Second)
	return s.Store.Put(r)
}

// TestLeavesDuringCommit: a client that goes when it has a large body has not given up, though the handler goes on until that is stored.
func TestLeavesDuringCommit(t *testing.T) {
	slow := func(cfg *cache.Config) { cfg.Store = slowStore{cfg.Store.(*memory.Store)} }
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, slow)
		defer r.close()
		body := strings.Repeat("x", 1<<20)
		r.origin.set(func(int, *http.Request) (*http.Response, error) {
			return response(200, body, "Cache-Control: max-age=60"), nil
		})
		ctx, leave := context.WithTimeout(t.Context(), time.Second/2)
		defer leave()
		wantBody(t, r.do(ctx, http.MethodGet, "/a"), 200, body)
		time.Sleep(time.Second)
		wantBody(t, r.get("/a"), 200, body)
		r.wantCalls(1)
		for _, e := range r.notes.reads {
			if e.ClientGone {
				t.Errorf("a client that had all %d bytes counts as gone", e.Bytes)
			}
		}
	})
}

// TestAnswerIsStoredFirst: only what is small, of known length and to be stored is sent before.
func TestAnswerIsStoredFirst(t *testing.T) {
	for name, resp := range map[string]func() *http.Response{
		"long": func() *http.Response {
			return response(200, strings.Repeat("x", 6<<10), "Cache-Control: max-age=60")
		},
		"long head": func() *http.Response {
			return response(200, "x", "Cache-Control: max-age=60", "X: "+strings.Repeat("x", 6<<10))
		},
		"of unknown length": func() *http.Response {
			resp := response(200, "x", "Cache-Control: max-age=60")
			resp.ContentLength = -1
			return resp
		},
		"not stored": func() *http.Response { return response(200, "x", "Cache-Control: no-store") },
		"failed":     func() *http.Response { return response(500, "x") },
	} {
		t.Run(name, func(t *testing.T) {
			inTwoParts(t, nil, func(t *testing.T, r *rig) {
				r.origin.set(func(int, *http.Request) (*http.Response, error) { return resp(), nil })
				w := promptWriter{httptest.NewRecorder(), func() { t.Error("sent before the fill has ended") }}
				r.serve(t.Context(), w, "/a")
				want, _ := io.ReadAll(resp().Body)
				wantBody(t, w.ResponseRecorder, resp().StatusCode, string(want))
			})
		})
	}
}
