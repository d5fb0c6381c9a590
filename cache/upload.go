package cache

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
)

// upload is a request's content on its way to the origin.
type upload struct {
	io.ReadCloser
	ended atomic.Bool // all of it was read, or what there is
	late  atomic.Bool // the client took too long for the next part
}

var errUploadLate = errors.New("cache: the client took too long for the next part of its request")

// Read takes note of the end.
func (u *upload) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if err != nil {
		u.late.Store(errors.Is(err, os.ErrDeadlineExceeded))
		u.ended.Store(true)
	}
	return n, err
}

// uploadLate tells whether a request failed because its client took too long to send it: RFC 9110 §15.5.9.
func (rd *read) uploadLate() bool { return rd.upload != nil && rd.upload.late.Load() }

// watchUpload returns the request, from here on with content of which is known whether it has ended.
func (rd *read) watchUpload() *http.Request {
	if rd.r.ContentLength == 0 {
		return rd.r
	}
	rd.upload = &upload{ReadCloser: rd.r.Body}
	r := rd.r.WithContext(rd.r.Context())
	r.Body = rd.upload
	return r
}

// early tells whether an answer now comes before the end of the request.
func (rd *read) early() bool { return rd.upload != nil && !rd.upload.ended.Load() }

// dontWait makes an early answer, of which the head is about to be written, the last one on its connection: net/http would read the rest of the request
// before it sends any other, and a client that does not know the answer may take its time with that, or wait for it.
func (rd *read) dontWait() {
	if rd.early() && rd.r.ProtoMajor == 1 {
		rd.w.Header().Set("Connection", "close")
	}
}
