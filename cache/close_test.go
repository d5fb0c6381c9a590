package cache_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swrproxy/swrproxy/cache"
)

// lateStore is a store whose Close writes for as long as it may.
type lateStore struct {
	cache.Store
	needs time.Duration
	cut   error // why it could not finish
}

func (s *lateStore) Walk(f func(*cache.Record) bool) { s.Store.(cache.Walker).Walk(f) }

func (s *lateStore) Close(ctx context.Context) error {
	select {
	case <-time.After(s.needs):
	case <-ctx.Done():
		s.cut = context.Cause(ctx)
	}
	return s.Store.Close(context.WithoutCancel(ctx))
}

// A store gets five seconds beyond the context of Close, whether that had ended before or ends because fills hang.
func TestCloseLeavesTheStoreTimeToWrite(t *testing.T) {
	for name, c := range map[string]struct {
		hangs       bool // a fill that must be cancelled
		patience    time.Duration
		needs, took time.Duration
		cut         bool
	}{
		"context ended before":  {needs: 4 * time.Second, took: 4 * time.Second},
		"store needs too long":  {needs: time.Minute, took: 5 * time.Second, cut: true},
		"fill used up the time": {hangs: true, patience: 2 * time.Second, needs: 4 * time.Second, took: 6 * time.Second},
		"ample time":            {patience: time.Hour, needs: time.Minute, took: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &lateStore{needs: c.needs}
				r := newRig(t, func(cfg *cache.Config) { s.Store, cfg.Store = cfg.Store, s })
				if c.hangs {
					r.origin.set(func(_ int, req *http.Request) (*http.Response, error) {
						<-req.Context().Done()
						return nil, context.Cause(req.Context())
					})
					go r.get("/hangs")
					synctest.Wait()
				}
				ctx, cancel := context.WithTimeout(t.Context(), c.patience)
				defer cancel()
				began := time.Now()
				err := r.c.Close(ctx)
				if took := time.Since(began); took != c.took {
					t.Errorf("took %v, want %v", took, c.took)
				}
				if c.hangs && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error %v does not tell of the fill", err)
				}
				if c.cut != (s.cut != nil) {
					t.Errorf("store cut: %v", s.cut)
				}
			})
		})
	}
}
