package cache

import (
	"net/http"
	"slices"
	"time"

	"github.com/swrproxy/swrproxy/internal/hopbyhop"
	"github.com/swrproxy/swrproxy/policy"
)

// passHeader is the client's header for a request that is passed on: the conditions stay.
func (rd *read) passHeader() http.Header {
	h := rd.r.Header.Clone()
	if h == nil {
		h = make(http.Header)
	}
	hopbyhop.Strip(h)
	return h
}

// passHead sends a HEAD on. Its answer freshens or invalidates the stored GET, so it is an exchange with a ticket: RFC 9111 §4.3.5.
func (rd *read) passHead() {
	rd.ev.Result = ResultMiss
	var t ticket
	rd.c.w.open(&t, rd.c.seq.Next())
	defer rd.c.w.close(&t)
	req := rd.upstreamRequest(rd.ctx)
	req.Method = http.MethodHead
	req.Header = rd.passHeader()
	resp, err := rd.up.RoundTrip(req)
	if err != nil {
		if rd.ctx.Err() != nil {
			rd.clientGone()
		}
		rd.fail(err, policy.ReasonOriginFailed)
		return
	}
	defer resp.Body.Close()
	rd.headFreshens(&t, resp, rd.start)
	rd.status.FwdStatus = resp.StatusCode
	copyHeader(rd.w.Header(), resp.Header)
	policy.AddCacheStatus(rd.w.Header(), &rd.status)
	rd.writeHeader(resp.StatusCode)
}

// headFreshens updates the stored GET response with the answer to a HEAD, or drops it if the answer shows that it is outdated.
func (rd *read) headFreshens(t *ticket, resp *http.Response, sentAt time.Time) {
	now := time.Now()
	hopbyhop.Strip(resp.Header)
	policy.EnsureDate(resp.Header, now)
	rec := rd.found.rec
	if rec == nil || resp.StatusCode != http.StatusOK || rec.Status != http.StatusOK {
		return
	}
	stored := rec.Fields.Header()
	ok, outdated := policy.HeadFreshens(stored, resp.Header, rec.Body.Size())
	switch {
	case outdated:
		rd.c.w.drop(rec, t.token)
	case ok:
		rd.freshenStored(t, rec, policy.Freshen(stored, resp.Header), sentAt, now)
	}
}

func (rd *read) freshenStored(t *ticket, rec *Record, merged http.Header, sentAt, now time.Time) {
	policy.EnsureDate(merged, now)
	get := rd.req
	get.Method = http.MethodGet
	adm := policy.Admit(&rd.rule.settings, &get, rec.Status, merged, sentAt, now)
	before, _ := policy.VaryOf(rec.Fields.Header())
	after, star := policy.VaryOf(merged)
	if !adm.Store || star || !slices.Equal(before, after) {
		rd.c.w.drop(rec, t.token)
		return
	}
	fresh := rd.c.recordOf(rec.Primary, rd.target, rec.Status, merged, adm, now)
	fresh.Key, fresh.Body, fresh.Trailer, fresh.Partial = rec.Key, rec.Body, rec.Trailer, rec.Partial
	rd.c.w.update(t, rec, fresh)
}
