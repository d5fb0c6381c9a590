package cache

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/swrproxy/swrproxy/fill"
	"github.com/swrproxy/swrproxy/internal/hopbyhop"
	"github.com/swrproxy/swrproxy/policy"
)

// read is one request on its way: rule and key, look-up, verdict, then one of serve, wait, pass. It lives on its request's
// goroutine and is not used after the answer: its memory is the next one's then.
type read struct {
	c     *Cache
	w     http.ResponseWriter
	r     *http.Request
	ctx   context.Context
	up    upstream
	start time.Time

	rule   *rule
	target policy.Target
	req    policy.Request
	key    string
	found  found
	// version is that of the key before the look-up.
	version uint64
	// spec overrides found.spec once a running fill showed that the key varies.
	spec      []string
	specKnown bool
	// seen is the fill that this reader waits for: it may share its response even if that is stale at once.
	seen *flight
	// own is the fill that this reader started, nil if it did not.
	own *flight
	// collapsed means that the reader waited for a fill that it did not start.
	collapsed bool
	waitUntil time.Time

	// source is the opened body of the record that is going to be served, if that does not live in memory.
	source   io.ReadSeekCloser
	sourceOf *Record

	// held is the status of a head that waits for the first byte behind it, 0 if none does; holding makes writeHeader hold it.
	held    int
	holding bool

	status policy.CacheStatus
	ev     ReadEvent
	over   bool    // no panic ended it
	upload *upload // the request's content while it is passed on, nil without
	// answered means that the answer was sent while the client was there: it may go then.
	answered bool
}

// serve answers one request. It is the whole of design section "one read, step by step".
func (c *Cache) serve(w http.ResponseWriter, r *http.Request, up upstream) {
	rd := reads.Get().(*read)
	*rd = read{c: c, w: w, r: withoutListed(r), ctx: r.Context(), up: up, start: time.Now()}
	defer rd.done()
	rd.run()
	rd.over = true
}

// reads are used again, but for those that a panic ended.
var reads = sync.Pool{New: func() any { return new(read) }}

func (rd *read) run() {
	if !rd.resolve() {
		return
	}
	if reason, pass := rd.mustPass(); pass {
		rd.pass(reason)
		return
	}
	rd.version = rd.c.w.version(rd.key)
	rd.found = rd.c.lookup(&rd.rule.settings, rd.key, rd.r.Header)
	rd.decide()
}

// withoutListed returns the request without the fields that its Connection field lists: the origin does not see them, so they must not
// choose a key or a variant either (RFC 9110 §7.6.1). An upgrade keeps them, unless HTTP/1.0 asks for it (§7.8).
func withoutListed(r *http.Request) *http.Request {
	lines := r.Header["Connection"]
	plain := func(v string) bool { return strings.EqualFold(v, "keep-alive") || strings.EqualFold(v, "close") }
	upgrade := r.ProtoAtLeast(1, 1) && hopbyhop.UpgradeType(r.Header) != ""
	if upgrade || !slices.ContainsFunc(lines, func(v string) bool { return !plain(v) }) {
		return r
	}
	bare := *r
	bare.Header = r.Header.Clone()
	hopbyhop.DeleteListed(bare.Header, lines)
	return &bare
}

// done reports the request, whatever became of it.
func (rd *read) done() {
	if rd.source != nil {
		rd.source.Close()
	}
	rd.ev.Start = rd.start
	rd.ev.Took = time.Since(rd.start)
	rd.ev.Method, rd.ev.Proto, rd.ev.Remote = rd.r.Method, rd.r.Proto, rd.r.RemoteAddr
	rd.ev.Scheme, rd.ev.Host, rd.ev.Path, rd.ev.Query = rd.target.Scheme, rd.target.Authority, rd.target.Path, rd.target.RawQuery
	if rd.rule != nil {
		rd.ev.Rule = rd.rule.name
	}
	if rd.ctx.Err() != nil && !rd.answered {
		rd.ev.ClientGone = true
	}
	rd.c.obs.ReadDone(&rd.ev)
	if rd.over {
		*rd = read{}
		reads.Put(rd)
	}
}

// resolve finds the target, the rule and the key.
func (rd *read) resolve() bool {
	target, err := policy.NewTarget(rd.r, rd.c.scheme(rd.r))
	if err != nil {
		rd.refuse(http.StatusBadRequest, policy.ReasonBadRequest, err)
		return false
	}
	rd.target = target
	rd.rule = rd.c.rules.Load().find(&rd.target)
	if rd.rule == nil {
		rd.refuse(http.StatusMisdirectedRequest, policy.ReasonBadRequest, errNoRule)
		return false
	}
	if rd.rule.upstream != nil {
		rd.up = rd.rule.via
	}
	rd.identify()
	return true
}

// identify reads the request's directives and builds its key.
func (rd *read) identify() {
	rd.req = policy.ReadRequest(rd.r, rd.rule.settings.Directives)
	rd.key = string(rd.rule.key.Append(make([]byte, 0, 256), &rd.target, rd.r.Header))
}

var errNoRule = errors.New("cache: no rule matches this request")

// mustPass tells whether the cache is not concerned with this request. One of HTTP/1.0 without a Host is for no URL: no purge by URL or host could
// reach what was stored for it.
func (rd *read) mustPass() (policy.Reason, bool) {
	switch {
	case rd.c.closed.Load():
		return policy.ReasonClosing, true
	case rd.rule.pass, rd.target.Authority == "":
		return policy.ReasonRule, true
	}
	return policy.Pass(&rd.req, &rd.rule.settings)
}

// decide acts on the verdict.
func (rd *read) decide() {
	if rd.found.rec == nil {
		rd.missed(rd.found.why)
		return
	}
	v := policy.Judge(rd.found.life, &rd.req, rd.start)
	if v.Use != policy.MustWait && !rd.opened(rd.found.rec) {
		rd.found = found{why: policy.ReasonKeyMiss}
		rd.missed(policy.ReasonKeyMiss)
		return
	}
	if rd.found.rec.Partial != nil {
		if !rd.answeredPart(v) {
			rd.missed(policy.ReasonPartial)
		}
		return
	}
	switch v.Use {
	case policy.Fresh:
		rd.answer(rd.found.rec, ResultHit, v.Reason)
	case policy.StaleWhileRevalidate:
		rd.refresh(rd.start)
		rd.answer(rd.found.rec, ResultStale, v.Reason)
	case policy.Bypass:
		rd.pass(v.Reason)
	default:
		rd.missed(v.Reason)
	}
}

// opened opens the body of a record before its head is sent. False means that the body is lost or damaged: the record is dropped, and
// the read goes on as if it had not been there.
func (rd *read) opened(rec *Record) bool {
	if _, inMemory := rec.Body.Bytes(); inMemory || rd.sourceOf == rec {
		return true
	}
	src, err := rec.Body.Open()
	if err != nil {
		rd.c.w.discard(rec)
		rd.c.obs.Noted(&Note{Kind: NoteStore, Key: rec.Primary, Text: "stored body can not be read; record dropped", Err: err})
		return false
	}
	if rd.source != nil {
		rd.source.Close()
	}
	rd.source, rd.sourceOf = src, rec
	return true
}

// refresh makes the one attempt of a stale read to have its record refreshed. Busy or backing off: it does nothing more.
func (rd *read) refresh(now time.Time) {
	key := rd.fillKey()
	if rd.c.closed.Load() || rd.c.states.backingOff(key, now) {
		return
	}
	if fl := rd.c.flights.get(key); fl != nil && !fl.stalled(now) {
		return // still arriving, whatever became of its lease
	}
	if !rd.rule.hasSlot() {
		return // the fill would give up at once
	}
	lease, err := rd.c.keeper.TryAcquire(key)
	switch {
	case err == nil:
		rd.startBackground(lease)
	case !errors.Is(err, fill.ErrBusy):
		rd.c.obs.Noted(&Note{Kind: NoteKeeper, Key: rd.target.Path, Text: "lease keeper failed; stale is served", Err: err})
	}
}

// startBackground hands the lease to a background fill, after one more look: the previous holder may have finished between look-up
// and lease. If anything goes wrong before the fill runs, the lease is given back.
func (rd *read) startBackground(lease *fill.Lease) {
	started := false
	defer func() {
		if !started {
			lease.Settle(fill.Outcome{Kind: fill.Abandoned})
		}
	}()
	if now := rd.c.lookup(&rd.rule.settings, rd.key, rd.r.Header); now.rec != nil && now.rec.Token > rd.found.rec.Token {
		return
	}
	rd.c.start(lease, rd, true)
	started = true
}

// fillKey is the key that a fill of this request holds. Requests with credentials wait only for each other: what they get is
// most often for them alone.
func (rd *read) fillKey() fill.Key {
	id := rd.key
	switch {
	case rd.specKnown:
		id = variantKey(rd.key, rd.spec, rd.r.Header)
	case rd.found.known:
		id = variantKey(rd.key, rd.found.spec, rd.r.Header)
	}
	if rd.req.Authorization {
		id += "\xfeauthorized"
	}
	if rd.forwardsRange() {
		id += "\xferange " + rd.r.Header.Get("Range")
	}
	return fill.Key{Space: rd.rule.name, ID: strings.TrimPrefix(id, rd.rule.name)}
}

// missed is for a request that nothing stored can answer right now.
func (rd *read) missed(why policy.Reason) {
	rd.ev.Reason = why
	rd.status.Fwd = forwardReason(why, rd.found.rec != nil)
	switch {
	case (rd.req.Control.OnlyIfCached || rd.r.Method == http.MethodHead) && rd.answeredBehind():
	case rd.req.Control.OnlyIfCached:
		rd.refuse(http.StatusGatewayTimeout, policy.ReasonOnlyIfCached, nil)
	case rd.r.Method == http.MethodHead:
		rd.passHead()
	case rd.req.Control.NoStore:
		rd.direct()
	default:
		rd.await()
	}
}

// forwardReason is the RFC 9211 §2.2 token of a reason.
func forwardReason(why policy.Reason, have bool) policy.Fwd {
	switch {
	case why == policy.ReasonVaryMiss:
		return policy.FwdVaryMiss
	case why == policy.ReasonRequestNoCache, why == policy.ReasonRequestMaxAge:
		return policy.FwdRequest
	case why == policy.ReasonPartial:
		return policy.FwdPartial
	case have:
		return policy.FwdStale
	default:
		return policy.FwdURIMiss
	}
}

// upstreamRequest is what goes to the origin for this read: a copy that shares nothing with the client's request but what
// nobody changes.
func (rd *read) upstreamRequest(ctx context.Context) *http.Request {
	h := fillHeader(rd.r.Header)
	rd.setRange(h)
	if rd.found.rec != nil && rd.found.rec.Partial == nil {
		for name, values := range policy.Conditional(rd.found.rec.Fields.Header()) {
			h[name] = values
		}
	}
	var blank http.Request
	req := blank.WithContext(ctx)
	req.Method, req.URL, req.Host, req.Header = http.MethodGet, rd.target.URL(), rd.target.Authority, h
	req.Proto, req.ProtoMajor, req.ProtoMinor = rd.r.Proto, rd.r.ProtoMajor, rd.r.ProtoMinor
	req.RemoteAddr, req.TLS = rd.r.RemoteAddr, rd.r.TLS
	return req
}

// fillHeader copies the fields of a client's request that a fill sends on: neither those of the connection nor the client's own conditions.
func fillHeader(h http.Header) http.Header {
	n := 0
	for _, lines := range h {
		n += len(lines)
	}
	out := make(http.Header, len(h)+1)
	backing := make([]string, 0, n)
	for name, lines := range h {
		if hopbyhop.Is(name) || policy.IsCondition(name) {
			continue
		}
		start := len(backing)
		backing = append(backing, lines...)
		out[name] = backing[start:len(backing):len(backing)]
	}
	hopbyhop.DeleteListed(out, h["Connection"])
	return out
}
