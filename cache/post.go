package cache

import (
	"io"
	"net/http"
	"time"

	"github.com/swrproxy/swrproxy/policy"
)

// keepAnswer lets the answer to a POST be stored for later GETs of the same target, where the rule and the answer allow it: RFC 9110
// §9.3.3. It is kept while it passes through to the client.
func (rd *read) keepAnswer(resp *http.Response) {
	s := &rd.rule.settings
	if rd.r.Method != http.MethodPost || !s.StorePOST || !policy.AnswersGET(rd.target, resp.Header) {
		return
	}
	now := time.Now()
	adm := policy.Admit(s, &rd.req, resp.StatusCode, resp.Header, rd.start, now)
	if !adm.Store || resp.ContentLength > rd.c.object.Max {
		return
	}
	fl := &flight{c: rd.c, rule: rd.rule, primary: rd.key, target: rd.target, preq: rd.req, req: rd.r, token: rd.c.seq.Next()}
	rec := fl.recordOf(resp.StatusCode, resp.Header, adm, now)
	resp.Body = &keptBody{ReadCloser: resp.Body, limit: rd.c.object.Max, whole: func(b []byte) {
		rec.Body = MemoryBody(b)
		fl.commit(rec, resp.Header)
	}}
}

// keptBody copies a body while it is read; whole is called at its good end, unless it was longer than limit.
type keptBody struct {
	io.ReadCloser
	kept  []byte
	limit int64
	whole func([]byte)
}

func (k *keptBody) Read(b []byte) (int, error) {
	n, err := k.ReadCloser.Read(b)
	if k.whole == nil {
		return n, err
	}
	k.kept = append(k.kept, b[:n]...)
	switch {
	case int64(len(k.kept)) > k.limit:
		k.kept, k.whole = nil, nil
	case err == io.EOF:
		k.whole(k.kept)
		k.whole = nil
	}
	return n, err
}
