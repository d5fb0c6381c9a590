package cache

import (
	"io"
	"net/http"
	"time"

	"github.com/swrproxy/swrproxy/policy"
)

// postFill is a POST whose answer may be stored for later GETs of the same target, where the rule and the answer allow it: RFC 9110 §9.3.3. It is a
// fill like any other: its ticket is open from before the request until its body has passed through to the client, or nothing is going to be stored.
type postFill struct {
	rd     *read
	ticket ticket
	// rec is what is going to be stored, without its body; nil if nothing is. kept are the bytes of the body so far.
	rec  *Record
	vary []string
	body io.ReadCloser
	kept []byte
	// trailer are the answer's trailer fields, complete at the end of its body.
	trailer http.Header
}

// beginPost opens the ticket of a POST whose answer may be stored; nil for all other requests. end closes it.
func (rd *read) beginPost() *postFill {
	if rd.r.Method != http.MethodPost || !rd.rule.settings.StorePOST || rd.c.closed.Load() {
		return nil
	}
	p := &postFill{rd: rd}
	rd.c.w.open(&p.ticket, rd.c.seq.Next())
	return p
}

func (p *postFill) end() {
	if p != nil {
		p.rd.c.w.close(&p.ticket)
	}
}

// answered sees the head of the answer before it goes to the client, and keeps the body that is going to pass if it may be stored. The answer itself
// invalidates what was stored of its target; what others invalidated since the request was sent forbids to keep it, or makes it stale.
func (p *postFill) answered(resp *http.Response) {
	rd, w := p.rd, &p.rd.c.w
	rec, vary, ok := p.storable(resp)
	added := w.log.added.Load()
	if ok {
		probe := *rec
		probe.Token = p.ticket.token
		rec.Life, ok = w.log.apply(&probe)
		ok = ok && !p.ticket.void.Load()
	}
	own := rd.passed(resp.StatusCode, resp.Header)
	w.close(&p.ticket)
	if !ok {
		return
	}
	p.ticket = ticket{}
	w.open(&p.ticket, rd.c.seq.Next())
	if w.log.added.Load() != added+uint64(own) {
		p.end()
		return // somebody else's came in between, under a number that this ticket does not see
	}
	p.rec, p.vary, p.body, p.trailer = rec, vary, resp.Body, resp.Trailer
	resp.Body = p
}

// storable makes the record of an answer, without its body, if it may be stored.
func (p *postFill) storable(resp *http.Response) (rec *Record, vary []string, ok bool) {
	rd := p.rd
	s := &rd.rule.settings
	if !policy.AnswersGET(rd.target, resp.Header) || resp.ContentLength > rd.c.object.Max {
		return nil, nil, false
	}
	now := time.Now()
	adm := policy.Admit(s, &rd.req, resp.StatusCode, resp.Header, rd.start, now)
	vary, star := policy.VaryOf(resp.Header)
	if !adm.Store || star {
		return nil, nil, false
	}
	return rd.c.recordOf(rd.key, rd.target, resp.StatusCode, resp.Header, adm, now), vary, true
}

// Read copies the body while it passes, and commits it at its good end, unless it is longer than what is stored.
func (p *postFill) Read(b []byte) (int, error) {
	n, err := p.body.Read(b)
	if p.rec == nil {
		return n, err
	}
	p.kept = append(p.kept, b[:n]...)
	switch {
	case int64(len(p.kept)) > p.rd.c.object.Max:
		p.rec, p.kept = nil, nil
		p.end()
	case err == io.EOF:
		p.commit()
	}
	return n, err
}

// Close ends the answer's body.
func (p *postFill) Close() error { return p.body.Close() }

func (p *postFill) commit() {
	rd := p.rd
	p.rec.Body, p.rec.Trailer = MemoryBody(p.kept), NewLines(p.trailer)
	rd.c.w.commit(&p.ticket, &change{rec: p.rec, vary: p.vary, asked: rd.r.Header, settings: &rd.rule.settings})
	p.rec = nil
	p.end()
}
