package cache_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swrproxy/swrproxy/cache"
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

// TestFillEndsHere: a response that comes whole at once costs no goroutine, and is stored before its reader has it all.
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
