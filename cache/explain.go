package cache

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/swrproxy/swrproxy/fill"
	"github.com/swrproxy/swrproxy/policy"
)

// Explanation says what the cache would do with a request now, and why.
type Explanation struct {
	// Rule is the rule that matches; Key the key in readable form.
	Rule, Key string
	// Stored tells whether a stored response was found; the fields up to Token describe it.
	Stored bool
	Status int
	Size   int64
	// StoredAt is when it was stored; Age how old it is; FreshUntil, StaleUntil and ErrorUntil are when its freshness and its two stale windows
	// end, equal to FreshUntil where there is no window.
	StoredAt                           time.Time
	Age                                time.Duration
	FreshUntil, StaleUntil, ErrorUntil time.Time
	Tags                               []string
	Token                              uint64
	// Fields are the stored fields, a copy; without those that each answer computes (Age, Content-Length).
	Fields http.Header
	// Variants is how many variants the key has, 0 if its responses do not vary; Vary are the fields of the newest.
	Variants int
	Vary     []string
	// Use is what a read would get and Reason why.
	Use    policy.Use
	Reason policy.Reason
	// NotStored is why the latest response that was not stored was not, with its status and when it came; zero if none is remembered.
	NotStored       policy.Reason
	NotStoredStatus int
	NotStoredAt     time.Time
	// Filling tells that a fill of the key runs in this process, since FillingSince, under the number FillToken. FillBackground means that no
	// reader waited when it began; FillReaders is how many read it now. RetryAt is when a failed key may be tried again, for this
	// request: one that nothing stored could answer meanwhile is tried at once. MarkedUntil is until when readers go straight to the
	// origin. Both are zero if not.
	Filling              bool
	FillingSince         time.Time
	FillToken            uint64
	FillBackground       bool
	FillReaders          int
	RetryAt, MarkedUntil time.Time
}

// Explain looks a request up without answering it, counting it, or starting anything. The request needs URL, Host and the header fields that
// matter. An error says what is wrong with the request.
func (c *Cache) Explain(r *http.Request) (Explanation, error) {
	rd, err := c.examine(r)
	if err != nil {
		return Explanation{}, err
	}
	x := Explanation{Rule: rd.rule.name, Key: readableKey(rd.key)}
	if why, pass := rd.mustPass(); pass {
		x.Use, x.Reason = policy.Bypass, why
		return x, nil
	}
	c.awaitCommits(r.Context())
	rd.found = c.lookup(&rd.rule.settings, rd.key, r.Header)
	rd.explainRecord(&x)
	rd.explainRefusal(&x)
	rd.explainFill(&x)
	return x, nil
}

// examine resolves a request that has no client.
func (c *Cache) examine(r *http.Request) (*read, error) {
	rd := &read{c: c, r: r, ctx: r.Context(), start: time.Now()}
	var err error
	if rd.target, err = policy.NewTarget(r, c.schemeOf(r)); err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	if rd.rule = c.rules.Load().find(&rd.target); rd.rule == nil {
		return nil, errNoRule
	}
	if rd.rule.upstream != nil {
		rd.up = rd.rule.via
	}
	rd.identify()
	return rd, nil
}

// schemeOf is the scheme of an absolute URL, else of the connection.
func (c *Cache) schemeOf(r *http.Request) string {
	if r.URL.IsAbs() {
		return r.URL.Scheme
	}
	return c.scheme(r)
}

func (rd *read) explainRecord(x *Explanation) {
	if index, ok := rd.c.store.Get(rd.key); ok && index.Index != nil {
		x.Variants, x.Vary = len(index.Index.Variants), rd.found.spec
	}
	rec, l := rd.found.rec, rd.found.life
	if rec == nil {
		x.Use, x.Reason = policy.MustWait, rd.found.why
		return
	}
	v := policy.Judge(l, &rd.req, rd.start)
	x.Stored, x.Status, x.Size, x.StoredAt, x.Tags, x.Token = true, rec.Status, rec.Body.Size(), rec.StoredAt, rec.Tags, rec.Token
	x.Fields = rec.Fields.Header()
	x.Age = l.Age(rd.start)
	x.FreshUntil = l.BornAt.Add(l.FreshFor)
	x.StaleUntil, x.ErrorUntil = x.FreshUntil.Add(l.StaleFor), x.FreshUntil.Add(l.ErrorFor)
	x.Use, x.Reason = v.Use, v.Reason
}

// explainRefusal tells of a refusal that came after what is stored.
func (rd *read) explainRefusal(x *Explanation) {
	if r, ok := rd.c.refused.get(rd.key); ok && r.at.After(x.StoredAt) {
		x.NotStored, x.NotStoredStatus, x.NotStoredAt = r.reason, r.status, r.at
	}
}

func (rd *read) explainFill(x *Explanation) {
	key := rd.fillKey()
	if fl := rd.c.flights.get(key); fl != nil {
		x.Filling, x.FillingSince, x.FillToken, x.FillBackground = true, fl.startedAt, fl.token, fl.background
		x.FillReaders = fl.reading()
	}
	s := rd.c.states.get(key)
	if rd.start.Before(s.retryAt) && rd.heldBack(x.Use) {
		x.RetryAt = s.retryAt
	}
	if rd.start.Before(s.markedUntil) {
		x.MarkedUntil = s.markedUntil
	}
}

// heldBack tells whether a read with this verdict heeds the pause of a key whose fill failed: it does if something else can answer it.
func (rd *read) heldBack(use policy.Use) bool {
	if use == policy.StaleWhileRevalidate {
		return true
	}
	_, ok := rd.servableOnError(rd.start)
	return ok
}

// ErrNoUpstream is returned by Refresh for a rule without Upstream.
var ErrNoUpstream = errors.New("cache: the rule has no upstream of its own to refresh from")

// cameTo is the failure of a fill whose lease ended for this cause, nil if it did not fail.
func (fl *flight) cameTo(cause error) error {
	out := fl.settledWith()
	switch {
	case fl.ready() && fl.head.err != nil:
		return fl.head.err
	case !errors.Is(cause, fill.ErrSettled):
		return cause
	case out.Kind == fill.Failed, out.Kind == fill.Abandoned:
		return out.Err
	}
	return nil
}

// Refresh starts a fill of a request's key now, whatever is stored, and takes the key from the fill that may be running: the result of that one
// is not stored any more. It returns when the fill has settled, lost its key or ctx ended; the fill goes on in the last two cases. The
// error tells why a fill failed: it wraps fill.ErrTenureOver for an origin that said nothing for a tenure. A response that must not be stored is no failure.
func (c *Cache) Refresh(ctx context.Context, r *http.Request) error {
	if c.closed.Load() {
		return ErrClosed
	}
	rd, err := c.examine(r)
	switch {
	case err != nil:
		return err
	case rd.up == nil:
		return ErrNoUpstream
	}
	rd.found = c.lookup(&rd.rule.settings, rd.key, r.Header)
	lease, err := c.keeper.Supersede(rd.fillKey())
	if err != nil {
		return fmt.Errorf("cache: refresh: %w", err)
	}
	ended := lease.Context()
	fl := c.start(lease, rd, true)
	select {
	case <-ended.Done():
		return wrap("refresh", fl.cameTo(context.Cause(ended)))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
