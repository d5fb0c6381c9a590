package cache

import (
	"io"
	"net/http"
	"strconv"

	"github.com/swrproxy/swrproxy/fill"
	"github.com/swrproxy/swrproxy/policy"
)

// bytesOf says in policy's terms which bytes a partial record holds.
func (r *Record) bytesOf() policy.Partial {
	return policy.Partial{Start: r.Partial.Start, End: r.Partial.Start + r.Body.Size() - 1, Size: r.Partial.Size}
}

// forwardsRange tells whether this read's fill asks the origin for the client's range only: where the rule stores partial
// content and nothing whole is stored that could be refreshed. Elsewhere a range request fetches the whole.
func (rd *read) forwardsRange() bool {
	return rd.rule.settings.StorePartial && rd.req.Range && (rd.found.rec == nil || rd.found.rec.Partial != nil)
}

// completes tells whether this read's fill asks for the bytes that a partial record lacks.
func (rd *read) completes() bool {
	return rd.found.rec != nil && rd.found.rec.Partial != nil && !rd.req.Range
}

// setRange gives a fill's request the Range that forwardsRange or completes call for: RFC 9111 §3.4.
func (rd *read) setRange(h http.Header) {
	switch {
	case rd.forwardsRange():
		h["Range"] = rd.r.Header["Range"]
	case rd.completes():
		rec := rd.found.rec
		r, ifRange, ok := rd.rule.settings.Missing(rec.Fields.Header(), rec.bytesOf())
		if !ok {
			return
		}
		h.Set("Range", r)
		if ifRange != "" {
			h.Set("If-Range", ifRange)
		}
	}
}

// answeredPart answers a range request from a partial record, if that has all the bytes asked for: RFC 9111 §3.3.
func (rd *read) answeredPart(v policy.Verdict) bool {
	rec := rd.found.rec
	if !rd.req.Range || v.Use != policy.Fresh {
		return false
	}
	parts, ok := policy.SelectPart(rd.r.Header, rec.Fields.Header(), rec.bytesOf())
	if !ok || len(parts) != 1 {
		return false
	}
	rd.beginAnswer(rec, ResultHit, v.Reason)
	h := rd.w.Header()
	h["Content-Range"] = []string{policy.ContentRange(parts[0], rec.Partial.Size)}
	h["Content-Length"] = []string{strconv.FormatInt(parts[0].Length, 10)}
	rd.writeHeader(http.StatusPartialContent)
	rd.sendBody(rec, parts[0].Start-rec.Partial.Start, parts[0].Length)
	return true
}

// completing tells whether a response is the missing part of the base.
func (fl *flight) completing(resp *http.Response) bool {
	return resp.StatusCode == http.StatusPartialContent && fl.base != nil && fl.base.Partial != nil && !fl.preq.Range
}

// completed joins the base with the bytes that it lacked and commits the whole. What does not fit is fetched again, whole.
func (fl *flight) completed(ev *FillEvent, resp *http.Response) fill.Outcome {
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, fl.c.object.Max+1))
	if err != nil {
		return fl.fail(ev, fl.causeOf(err))
	}
	stored := fl.base.Fields.Header()
	q, ok := fl.rule.settings.Part(resp.Header, int64(len(body)))
	if !ok || !fl.continues(resp.Header, q) {
		return fl.again(ev)
	}
	joined, start := join(fl.base, body, q)
	if start != 0 || int64(len(joined)) != q.Size {
		return fl.again(ev)
	}
	merged := policy.Freshen(stored, resp.Header)
	now := fl.startedAt
	policy.EnsureDate(merged, now)
	adm := policy.Admit(&fl.rule.settings, &fl.preq, http.StatusOK, merged, now, now)
	rec := fl.recordOf(http.StatusOK, merged, adm, now)
	rec.Body = MemoryBody(joined)
	ev.Bytes = int64(len(body))
	if adm.Store {
		fl.commit(rec, merged, nil)
	}
	fl.c.states.forget(fl.key)
	fl.head = head{record: rec, status: http.StatusPartialContent, header: merged, admission: adm, at: now, outdated: fl.overtaken(merged)}
	close(fl.headReady)
	return fill.Outcome{Kind: fill.Stored}
}

// join lays new bytes over those of a partial record; their ranges touch or overlap.
func join(rec *Record, body []byte, q policy.Partial) (joined []byte, start int64) {
	p := rec.bytesOf()
	old, _ := rec.Body.Bytes()
	start = min(p.Start, q.Start)
	joined = make([]byte, max(p.End, q.End)+1-start)
	copy(joined[p.Start-start:], old)
	copy(joined[q.Start-start:], body)
	return joined, start
}

// storePart stores the whole body of a 206 that answered a range request, joined with what is stored if it fits to that.
func (fl *flight) storePart(h *head, body Body) {
	q, ok := fl.rule.settings.Part(h.header, body.Size())
	if !ok {
		return
	}
	rec := fl.recordOf(http.StatusPartialContent, h.header, h.admission, h.at)
	rec.Body, rec.Partial = body, &Partial{Start: q.Start, Size: q.Size}
	if b, ok := body.Bytes(); ok && fl.continues(h.header, q) {
		joined, start := join(fl.base, b, q)
		rec.Body, rec.Partial = MemoryBody(joined), &Partial{Start: start, Size: q.Size}
	}
	if rec.Partial.Start == 0 && rec.Body.Size() == rec.Partial.Size {
		rec.Status, rec.Partial = http.StatusOK, nil
	}
	fl.commit(rec, h.header, nil)
}

// continues tells whether a part fits to the partial base, both in memory.
func (fl *flight) continues(h http.Header, q policy.Partial) bool {
	b := fl.base
	if b == nil || b.Partial == nil || !fl.baseHolds() {
		return false
	}
	_, inMemory := b.Body.Bytes()
	return inMemory && policy.Combines(b.Fields.Header(), h, b.bytesOf(), q)
}
