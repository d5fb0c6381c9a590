package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/swrproxy/swrproxy/cache"
)

// Cache is what the paths below /v1 act on; *cache.Cache is one. Safe for concurrent use.
type Cache interface {
	Purge(context.Context, cache.Selector, cache.PurgeOptions) (cache.PurgeResult, error)
	Explain(*http.Request) (cache.Explanation, error)
	Refresh(context.Context, *http.Request) error
	Stats() cache.Stats
}

// api serves the paths below /v1. Immutable, but for the refiller.
type api struct {
	cache    Cache
	tiers    map[string]cache.StatsSource
	refiller *refiller
}

func newAPI(o Options) *api {
	return &api{cache: o.Cache, tiers: o.Tiers, refiller: newRefiller(o.Cache, o.Refills)}
}

// mount puts every path and its one method on mux.
func (a *api) mount(mux *http.ServeMux) {
	for _, p := range []struct {
		method, path string
		serve        http.HandlerFunc
	}{
		{http.MethodPost, "/v1/purge", a.purge},
		{http.MethodGet, "/v1/records", a.records},
		{http.MethodPost, "/v1/refresh", a.refresh},
		{http.MethodGet, "/v1/stats", a.stats},
	} {
		mux.HandleFunc(p.method+" "+p.path, p.serve)
		mux.HandleFunc(p.path, onlyMethod(p.method))
	}
}

func onlyMethod(method string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", method)
		WriteError(w, http.StatusMethodNotAllowed, fmt.Sprintf("%s is not for this path; use %s", clip(r.Method), method))
	}
}

// requestFor is a reader's request for an absolute URL.
func requestFor(ctx context.Context, raw string, h http.Header) (*http.Request, *badInput) {
	if bad := checkURL("url", raw); bad != nil {
		return nil, bad
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, raw, nil)
	if err != nil {
		return nil, badURL("url", raw, err.Error())
	}
	if h != nil {
		r.Header = h
	}
	return r, nil
}

// checkURL tells what is wrong with an absolute URL.
func checkURL(field, raw string) *badInput {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return badURL(field, raw, err.(*url.Error).Err.Error()) // all that Parse returns
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return badURL(field, raw, "not absolute")
	case u.User != nil:
		return badURL(field, raw, "it names a user")
	case u.Fragment != "":
		return badURL(field, raw, "it has a fragment")
	}
	return nil
}

func badURL(field, raw, why string) *badInput {
	return &badInput{field: field, value: fmt.Sprintf("%q", clip(raw)), why: "is no URL of a page: " + why, mend: "write it as http://host/path?query"}
}

// refused answers for a request that the cache cannot place: malformed, or no rule's.
func refused(w http.ResponseWriter, raw string, err error) {
	switch {
	case cache.IsBadRequest(err):
		writeBad(w, badURL("url", raw, strings.TrimPrefix(err.Error(), "cache: policy: ")))
	case errors.Is(err, cache.ErrNoRule):
		writeBad(w, &badInput{
			field: "url", value: fmt.Sprintf("%q", clip(raw)), why: "is matched by no rule", mend: "look at match in the rules of the settings",
			status: http.StatusNotFound,
		})
	case errors.Is(err, cache.ErrClosed):
		WriteError(w, http.StatusServiceUnavailable, "the proxy is stopping")
	default:
		WriteError(w, http.StatusInternalServerError, err.Error())
	}
}
