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

// headFreshens updates the stored GET response with the answer to a HEAD, or drops it if the answer shows that it is outdated:
// RFC 9111 §4.3.5.
func (rd *read) headFreshens(resp *http.Response, sentAt time.Time) {
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
		rd.c.store.Delete(rec.Key, rd.c.seq.Next())
	case ok:
		rd.freshenStored(rec, policy.Freshen(stored, resp.Header), sentAt, now)
	}
}

func (rd *read) freshenStored(rec *Record, merged http.Header, sentAt, now time.Time) {
	policy.EnsureDate(merged, now)
	get := rd.req
	get.Method = http.MethodGet
	adm := policy.Admit(&rd.rule.settings, &get, rec.Status, merged, sentAt, now)
	before, _ := policy.VaryOf(rec.Fields.Header())
	after, star := policy.VaryOf(merged)
	if !adm.Store || star || !slices.Equal(before, after) {
		rd.c.store.Delete(rec.Key, rd.c.seq.Next())
		return
	}
	fresh := *rec
	fresh.Fields, fresh.Life, fresh.StoredAt = keptFields(rec.Status, merged, adm), adm.Life, now.UTC().Round(0)
	withLock(&rd.c.commits[stripe(rec.Primary)], func() { rd.c.store.Put(&fresh) })
}
