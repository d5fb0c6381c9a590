package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/policy"
)

// refreshWait is how long POST /v1/refresh waits for its fill, which goes on after that.
const refreshWait = 30 * time.Second

// RefreshRequest is the body of POST /v1/refresh.
type RefreshRequest struct {
	// URL is absolute. Headers are the request fields that choose a variant; none means those of a reader who sends none.
	URL     string      `json:"url"`
	Headers http.Header `json:"headers,omitempty"`
}

// RefreshAnswer says what came of a forced fetch.
type RefreshAnswer struct {
	// Outcome is stored, not-stored (the origin answered, see Now.NotStored), or running (it takes longer than 30 s).
	Outcome string `json:"outcome"`
	TookMS  int64  `json:"took_ms"`
	// Now is what the cache has after it.
	Now RecordAnswer `json:"now"`
}

func (a *api) refresh(w http.ResponseWriter, r *http.Request) {
	var q RefreshRequest
	bad := decode(w, r, `{"url":"http://example.org/page"}`, map[string]setter{"url": text("url", &q.URL), "headers": header("headers", &q.Headers)})
	if bad == nil && q.URL == "" {
		bad = &badInput{field: "url", why: "is missing", mend: "write the absolute URL of a page"}
	}
	if bad != nil {
		writeBad(w, bad)
		return
	}
	req, bad := requestFor(r.Context(), q.URL, q.Headers)
	if bad != nil {
		writeBad(w, bad)
		return
	}
	a.runRefresh(w, req, q.URL)
}

func (a *api) runRefresh(w http.ResponseWriter, req *http.Request, raw string) {
	before, err := a.cache.Explain(req)
	if err != nil {
		refused(w, raw, err)
		return
	}
	if before.Use == policy.Bypass {
		writeBad(w, &badInput{
			field: "url", value: fmt.Sprintf("%q", clip(raw)), why: "is not cached: " + before.Reason.String(), mend: "look at the rule " + before.Rule,
			status: http.StatusConflict,
		})
		return
	}
	start := time.Now()
	ctx, cancel := context.WithTimeoutCause(req.Context(), refreshWait, errRunning)
	defer cancel()
	err = a.cache.Refresh(ctx, req)
	took := time.Since(start)
	switch {
	case err == nil, errors.Is(err, errRunning):
	case errors.Is(err, cache.ErrNoSlot):
		w.Header().Set("Retry-After", "1")
		WriteError(w, http.StatusServiceUnavailable, "all fill places of the origin are taken; try again")
		return
	case errors.Is(err, cache.ErrClosed), errors.Is(err, cache.ErrNoRule), errors.Is(err, cache.ErrNoUpstream):
		refused(w, raw, err)
		return
	default:
		WriteError(w, http.StatusBadGateway, fmt.Sprintf("the refresh failed: %v", err))
		return
	}
	now, explainErr := a.cache.Explain(req)
	if explainErr != nil {
		refused(w, raw, explainErr)
		return
	}
	WriteJSON(w, http.StatusOK, RefreshAnswer{Outcome: outcomeOf(&before, &now, err), TookMS: took.Milliseconds(), Now: recordAnswer(raw, &now)})
}

// errRunning is the cause of a wait that ended before its fill.
var errRunning = errors.New("admin: the fill still runs")

func outcomeOf(before, now *cache.Explanation, err error) string {
	switch {
	case errors.Is(err, errRunning):
		return "running"
	case now.Stored && now.Token > before.Token:
		return "stored"
	default:
		return "not-stored"
	}
}
