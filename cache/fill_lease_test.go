package cache_test

import (
	"bytes"
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
	"github.com/swrproxy/swrproxy/fill"
)

// silent is an origin that says nothing until its request ends.
func silent(_ int, req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, context.Cause(req.Context())
}

// noted counts the notes of a kind.
func (n *notes) noted(kind cache.NoteKind) (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range n.others {
		if n.others[i].Kind == kind {
			count++
		}
	}
	return count
}

// TestQueueingFillStopsRenewing: a fill that got its place among the origin's fills in the very instant in which it renewed its lease loses that
// at the tenure like any other. Many do so at once, since which of the two comes first is chance.
func TestQueueingFillStopsRenewing(t *testing.T) {
	const tenure, fills = 3 * time.Second, 100
	change := func(cfg *cache.Config) { cfg.Fill.Concurrency, cfg.Fill.Wait = fills, -1 }
	bubble(t, change, func(t *testing.T, r *rig) {
		r.origin.set(func(n int, req *http.Request) (*http.Response, error) {
			if strings.HasPrefix(req.URL.Path, "/first") {
				time.Sleep(tenure / 3)
				return response(200, "x", "Cache-Control: max-age=60"), nil
			}
			return silent(n, req)
		})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, path := range []string{"/first/", "/then/"} {
			for i := range fills {
				wg.Go(func() { r.do(ctx, http.MethodGet, fmt.Sprint(path, i)) })
			}
			synctest.Wait()
		}
		time.Sleep(tenure/3 + 2*tenure)
		synctest.Wait()
		if n := r.notes.noted(cache.NoteTenure); n != fills {
			t.Errorf("%d of %d fills of a silent origin have lost their keys after two tenures", n, fills)
		}
		time.Sleep(6 * tenure)
		synctest.Wait()
		if n := r.c.Stats().Fills; n != 0 {
			t.Errorf("%d fills still run", n)
		}
		cancel()
		wg.Wait()
	})
}

// pacedWriter is a client that takes a number of bytes a second; of 0 it takes none before open is closed.
type pacedWriter struct {
	*httptest.ResponseRecorder
	rate int
	open chan struct{}
}

func (w pacedWriter) Write(b []byte) (int, error) {
	if w.open != nil {
		<-w.open
		return w.ResponseRecorder.Write(b)
	}
	const step = 16 << 10
	for part := b; len(part) > 0; {
		n := min(step, len(part))
		time.Sleep(time.Duration(n) * time.Second / time.Duration(w.rate))
		_, _ = w.ResponseRecorder.Write(part[:n])
		part = part[n:]
	}
	return len(b), nil
}

// large answers with a body of n bytes.
func large(n int) func(int, *http.Request) (*http.Response, error) {
	body := bytes.Repeat([]byte("x"), n)
	return func(int, *http.Request) (*http.Response, error) {
		resp := response(200, "", "Cache-Control: max-age=600")
		resp.ContentLength, resp.Body = -1, io.NopCloser(bytes.NewReader(body))
		return resp, nil
	}
}

// TestSlowReaderOfALargeBodyKeepsNoLog: a body that is not stored any more holds up no entry of the log, however slowly it is read.
func TestSlowReaderOfALargeBodyKeepsNoLog(t *testing.T) {
	change := func(cfg *cache.Config) { cfg.Object.Max = 100 << 10 }
	bubble(t, change, func(t *testing.T, r *rig) {
		r.origin.set(large(8 << 20))
		open := make(chan struct{})
		w := pacedWriter{ResponseRecorder: httptest.NewRecorder(), open: open}
		done := make(chan bool)
		go func() { done <- r.serve(t.Context(), w, "/large") }()
		synctest.Wait()
		for by, sel := range selectors {
			r.purge(sel, cache.PurgeOptions{})
			synctest.Wait()
			if n := r.c.Stats().Invalidations; n != 0 {
				t.Errorf("%d entries of the log wait for a fill that stores nothing, after a purge by %s", n, by)
			}
		}
		close(open)
		if whole := <-done; !whole || w.Body.Len() != 8<<20 {
			t.Errorf("the reader got %d bytes, whole: %t", w.Body.Len(), whole)
		}
	})
}

// TestReaderSlowerThanTheOrigin: a client that takes a large body at its own pace gets all of it, although the origin waits for longer than any tenure.
func TestReaderSlowerThanTheOrigin(t *testing.T) {
	for name, rate := range map[string]int{"steady": 128 << 10, "in 40 tenures": 16 << 10} {
		t.Run(name, func(t *testing.T) {
			change := func(cfg *cache.Config) { cfg.Object.Max = 100 << 10 }
			bubble(t, change, func(t *testing.T, r *rig) {
				r.origin.set(large(6 << 20))
				w := pacedWriter{ResponseRecorder: httptest.NewRecorder(), rate: rate}
				if whole := r.serve(t.Context(), w, "/large"); !whole || w.Body.Len() != 6<<20 {
					t.Errorf("the client got %d of %d bytes, whole: %t", w.Body.Len(), 6<<20, whole)
				}
			})
		})
	}
}

// TestRefreshTellsOfASilentOrigin: Refresh returns at the tenure with an error that says so; what the origin says later is no success of it.
func TestRefreshTellsOfASilentOrigin(t *testing.T) {
	origin := &script{}
	change := func(cfg *cache.Config) { cfg.Rules = []cache.Rule{{Name: "r", Upstream: origin}} }
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, change)
		defer r.close()
		origin.set(silent)
		req := httptest.NewRequest(http.MethodGet, "http://example.org/a", nil)
		began := time.Now()
		err := r.c.Refresh(t.Context(), req)
		if !errors.Is(err, fill.ErrTenureOver) {
			t.Errorf("error %v, want one that wraps %v", err, fill.ErrTenureOver)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("returned after %v, want the tenure", took)
		}
	})
}

// TestRefreshTellsWhatItsFillCameTo: nil only for a record that is stored.
func TestRefreshTellsWhatItsFillCameTo(t *testing.T) {
	origin := &script{}
	change := func(cfg *cache.Config) { cfg.Rules = []cache.Rule{{Name: "r", Upstream: origin}} }
	for name, c := range map[string]struct {
		do   func(int, *http.Request) (*http.Response, error)
		good bool
	}{
		"stored":  {after(time.Second, numbered("Cache-Control: max-age=60")), true},
		"refused": {func(int, *http.Request) (*http.Response, error) { return nil, errors.New("refused") }, false},
		"503":     {after(time.Second, func(int, *http.Request) *http.Response { return response(503, "down") }), false},
		"cut": {func(int, *http.Request) (*http.Response, error) {
			resp := response(200, "whole", "Cache-Control: max-age=60")
			resp.Body = io.NopCloser(io.MultiReader(strings.NewReader("who"), errReader{io.ErrUnexpectedEOF}))
			return resp, nil
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, change)
				defer r.close()
				origin.set(c.do)
				err := r.c.Refresh(t.Context(), httptest.NewRequest(http.MethodGet, "http://example.org/a", nil))
				if (err == nil) != c.good {
					t.Errorf("error %v", err)
				}
			})
		})
	}
}

// keeping is an observer that keeps the strings of the last read.
type keeping struct {
	cache.NopObserver
	last cache.ReadEvent
}

func (k *keeping) ReadDone(e *cache.ReadEvent) { k.last = *e }

// TestEventStringsStay: an observer may keep the strings of an event: what a server reads next into its buffer does not change them.
func TestEventStringsStay(t *testing.T) {
	k := &keeping{}
	bubble(t, func(cfg *cache.Config) { cfg.Observer = k }, func(t *testing.T, r *rig) {
		r.origin.set(after(0, func(int, *http.Request) *http.Response {
			return response(200, "x", "Cache-Control: max-age=60", "Content-Type: text/plain")
		}))
		wantBody(t, r.get("/path?query=1"), 200, "x")
		synctest.Wait()
		buf := []byte("/path?query=1example.orgAccept*/*")
		q := cache.HitRequest{
			Method: http.MethodGet, Target: buf[:13:13], Host: buf[13:24:24], Remote: "192.0.2.1:1", At: time.Now(),
			Fields: []cache.HitField{{Name: buf[24:30:30], Value: buf[30:]}},
		}
		var a cache.HitAnswer
		if !r.c.Hit(&q, &a) {
			t.Fatal("not answered on the hit path")
		}
		r.c.HitSent(&a, 1, true)
		for i := range buf {
			buf[i] = '#'
		}
		for what, s := range map[string]string{
			k.last.Method: "GET", k.last.Scheme: "http", k.last.Host: "example.org", k.last.Path: "/path", k.last.Query: "query=1",
			k.last.Remote: "192.0.2.1:1", k.last.Proto: "HTTP/1.1",
		} {
			if what != s {
				t.Errorf("%q became %q", s, what)
			}
		}
	})
}
