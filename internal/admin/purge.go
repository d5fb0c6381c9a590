package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/swrproxy/swrproxy/cache"
)

// PurgeAnswer says what a purge did, or with DryRun would do.
type PurgeAnswer struct {
	// Records is how many stored responses it reached, each variant counted; Tiers how many of them each tier held. Keys are those of the
	// first 100.
	Records int `json:"records"`
	// Pending means that the purge is in force, and that nothing is counted yet.
	Pending bool           `json:"pending,omitempty"`
	Tiers   map[string]int `json:"tiers,omitempty"`
	Keys    []string       `json:"keys"`
	Soft    bool           `json:"soft,omitempty"`
	DryRun  bool           `json:"dry_run,omitempty"`
	// Refreshing is how many URLs are fetched afresh behind the answer; Skipped how many are not, because too many wait already.
	Refreshing int `json:"refreshing,omitempty"`
	Skipped    int `json:"skipped,omitempty"`
}

// purgeWait is how long an answer waits for its purge: many times what a walk over a large store takes. One that is in force by then goes on, one that has found
// no room among those that wait is given up.
const purgeWait = 5 * time.Minute

// purgeFailure is the answer of a purge that holds only until the process ends.
type purgeFailure struct {
	Error  ErrorDetail `json:"error"`
	Result PurgeAnswer `json:"result"`
}

func (a *api) purge(w http.ResponseWriter, r *http.Request) {
	p, bad := readPurge(w, r)
	if bad != nil {
		writeBad(w, bad)
		return
	}
	sel, bad := p.selector()
	if bad != nil {
		writeBad(w, bad)
		return
	}
	urls := newURLSet()
	opt := cache.PurgeOptions{By: "admin " + r.RemoteAddr, Soft: p.Soft, DryRun: p.DryRun, NoWait: p.noWait()}
	if p.Refresh && !p.DryRun {
		opt.Reached = urls.add
	}
	// Whoever asked for a purge wants all of it, though it takes longer than the connection lasts.
	ctx := context.WithoutCancel(r.Context())
	if opt.Reached == nil { // else what it has told of is needed here
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, purgeWait)
		defer cancel()
	}
	res, err := a.cache.Purge(ctx, sel, opt)
	if errors.Is(err, context.DeadlineExceeded) {
		res, err = cache.PurgeResult{Pending: true}, nil // it goes on
	}
	ans := PurgeAnswer{Records: res.Records, Pending: res.Pending, Tiers: res.Tiers, Keys: res.Keys, Soft: p.Soft, DryRun: p.DryRun}
	ans.Refreshing = a.refiller.enqueue(urls.list)
	ans.Skipped = len(urls.list) - ans.Refreshing + urls.beyond
	writePurge(w, ans, err)
}

func writePurge(w http.ResponseWriter, ans PurgeAnswer, err error) {
	if ans.Keys == nil {
		ans.Keys = []string{}
	}
	switch {
	case err == nil && ans.Pending:
		WriteJSON(w, http.StatusAccepted, ans)
	case err == nil:
		WriteJSON(w, http.StatusOK, ans)
	case errors.Is(err, cache.ErrPurgeBacklog):
		w.Header().Set("Retry-After", "1")
		WriteError(w, http.StatusServiceUnavailable, "too many purges wait to be applied; nothing was purged, try again")
	case errors.Is(err, cache.ErrSelector):
		writeBad(w, &badInput{why: err.Error(), mend: "send " + purgeExample})
	case errors.Is(err, cache.ErrClosed):
		WriteError(w, http.StatusServiceUnavailable, "the proxy is stopping")
	default:
		const status, mend = http.StatusServiceUnavailable, "send it again when the disk works"
		WriteJSON(w, status, purgeFailure{
			ErrorDetail{Status: status, Message: "purged until the process ends, but not on disk: " + err.Error() + "; " + mend, Mend: mend},
			ans,
		})
	}
}

// urlSet collects URLs, each once. Not safe for concurrent use.
type urlSet struct {
	seen   map[string]struct{}
	list   []string
	beyond int // reached when the list was full, repetitions included
}

func newURLSet() *urlSet { return &urlSet{seen: make(map[string]struct{})} }

func (s *urlSet) add(url string) {
	if _, have := s.seen[url]; have {
		return
	}
	if len(s.list) == maxRefills {
		s.beyond++
		return
	}
	s.seen[url] = struct{}{}
	s.list = append(s.list, url)
}
