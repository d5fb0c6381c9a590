package cache

import (
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strconv"

	"github.com/swrproxy/swrproxy/policy"
)

// answeredRange answers 206 or 416 from a whole stored body: RFC 9110 §14.2. False means that the Range is to be ignored.
func (rd *read) answeredRange(rec *Record) bool {
	h := rd.w.Header()
	size := rec.Body.Size()
	parts, result := policy.SelectRange(rd.r.Header, h, size)
	switch {
	case result == policy.RangeUnsatisfiable:
		rd.unsatisfiable(size)
	case result != policy.RangeOK:
		return false
	case len(parts) == 1:
		rd.beginPart(parts[0], size)
		rd.sendBody(rec, parts[0].Start, parts[0].Length)
	default:
		rd.sendParts(rec, parts)
	}
	return true
}

// unsatisfiable answers 416: RFC 9110 §15.5.17.
func (rd *read) unsatisfiable(size int64) {
	h := rd.w.Header()
	clearRepresentation(h)
	h["Content-Range"] = []string{"bytes */" + strconv.FormatInt(size, 10)}
	h["Content-Length"] = []string{"0"}
	rd.writeHeader(http.StatusRequestedRangeNotSatisfiable)
}

func (rd *read) beginPart(p policy.ByteRange, size int64) {
	h := rd.w.Header()
	h["Content-Range"] = []string{policy.ContentRange(p, size)}
	h["Content-Length"] = []string{strconv.FormatInt(p.Length, 10)}
	rd.writeHeader(http.StatusPartialContent)
}

// rangeOfArriving begins the answer to a range request from a body that is still arriving and whose length is known. done means that the
// answer is complete. Several ranges of an arriving body are answered with the whole.
func (rd *read) rangeOfArriving(size int64) (start, length int64, done bool) {
	parts, result := policy.SelectRange(rd.r.Header, rd.w.Header(), size)
	switch {
	case result == policy.RangeUnsatisfiable:
		rd.unsatisfiable(size)
		return 0, 0, true
	case result == policy.RangeOK && len(parts) == 1:
		rd.beginPart(parts[0], size)
		return parts[0].Start, parts[0].Length, false
	default:
		rd.writeHeader(http.StatusOK)
		return 0, size, false
	}
}

// sendParts answers several ranges as multipart/byteranges: RFC 9110 §14.6.
func (rd *read) sendParts(rec *Record, parts []policy.ByteRange) {
	h := rd.w.Header()
	contentType := h.Get("Content-Type")
	mw := multipart.NewWriter(countingWriter{rd})
	h.Set("Content-Type", "multipart/byteranges; boundary="+mw.Boundary())
	delete(h, "Content-Length")
	rd.writeHeader(http.StatusPartialContent)
	if rd.r.Method == http.MethodHead {
		return
	}
	for _, p := range parts {
		head := textproto.MIMEHeader{"Content-Range": {policy.ContentRange(p, rec.Body.Size())}}
		if contentType != "" {
			head.Set("Content-Type", contentType)
		}
		_, err := mw.CreatePart(head)
		rd.sent(err)
		rd.sendBody(rec, p.Start, p.Length)
	}
	rd.sent(mw.Close())
}

// countingWriter writes to the client through the read's own counter.
type countingWriter struct{ rd *read }

func (w countingWriter) Write(b []byte) (int, error) {
	n, err := w.rd.w.Write(b)
	w.rd.ev.Bytes += int64(n)
	return n, err
}
