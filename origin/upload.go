package origin

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// upload is a request body on its way. It tells a stalled origin (no read for too long after the last one) and a failing
// client (an error of the source, or its end before the announced size) apart, and keeps the source open while it may still go to another URL.
//
// Read and Close as for any io.ReadCloser; the other methods are safe for concurrent use.
type upload struct {
	src    io.ReadCloser
	size   int64         // as announced, otherwise 0 or less
	read   int64         // owned by the reader
	idle   time.Duration // 0: no limit
	cancel context.CancelCauseFunc
	state  atomic.Int32 // one of the values below
	failed atomic.Pointer[error]
	timer  *time.Timer // runs between two reads; owned by the reader
}

const (
	uploadUntouched int32 = iota
	uploadStarted         // net/http reads it and will close it
	uploadAbandoned       // nobody will read it
)

// Read reads from the source.
func (u *upload) Read(p []byte) (int, error) {
	if !u.state.CompareAndSwap(uploadUntouched, uploadStarted) && u.state.Load() == uploadAbandoned {
		return 0, errAbandoned
	}
	if u.timer != nil {
		u.timer.Stop()
	}
	n, err := u.src.Read(p)
	u.read += int64(n)
	if err == io.EOF && u.read < u.size {
		err = fmt.Errorf("request body ends after %d of %d bytes", u.read, u.size)
	}
	switch {
	case err == nil:
		u.watch()
	case err != io.EOF:
		u.failed.CompareAndSwap(nil, &err)
	}
	return n, err
}

// watch ends the exchange if the origin does not take what was just read.
func (u *upload) watch() {
	switch {
	case u.idle <= 0:
	case u.timer == nil:
		u.timer = time.AfterFunc(u.idle, func() { u.cancel(errIdleSend) })
	default:
		u.timer.Reset(u.idle)
	}
}

// Close closes the source if reading began. If not, the body may still be wanted at another URL; RoundTrip or abandon
// closes it.
func (u *upload) Close() error {
	if u.state.Load() != uploadStarted {
		return nil
	}
	if u.timer != nil {
		u.timer.Stop()
	}
	return u.src.Close()
}

// untouched reports whether nothing was read.
func (u *upload) untouched() bool { return u.state.Load() == uploadUntouched }

// failure returns the error with which the source failed, nil if it did not. u may be nil.
func (u *upload) failure() error {
	if u == nil {
		return nil
	}
	if err := u.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// abandon closes a source that nobody began to read, at the end of the exchange. One that is being read is left alone:
// closing it could block until the client sends more. u may be nil.
func (u *upload) abandon() {
	if u != nil && u.state.CompareAndSwap(uploadUntouched, uploadAbandoned) {
		u.src.Close()
	}
}
