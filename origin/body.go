package origin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// wrapBody makes resp's body keep the exchange's books: its errors get a class, its silences a limit, its end is counted.
func (p *Pool) wrapBody(t *target, tr *http.Transport, out *outbound, resp *http.Response) {
	b := &body{src: resp.Body, idle: idleLimit(p.cfg.Timeouts.IdleBody, resp.Header)}
	b.pool, b.target, b.transport, b.out = p, t, tr, out
	b.gatewayError = p.cfg.Health.GatewayErrors && isGatewayError(resp.StatusCode)
	if own, ok := resp.Body.(*plainBody); ok {
		own.c.idle, b.idle = b.idle, 0
	}
	switch duplex, ok := resp.Body.(io.ReadWriteCloser); {
	case ok && resp.StatusCode == http.StatusSwitchingProtocols:
		resp.Body = &switched{ReadWriteCloser: duplex, end: &b.ending}
	case resp.Body == nil, resp.Body == http.NoBody:
		b.clean()
	default:
		resp.Body = b
	}
}

func isGatewayError(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
}

// idleLimit exempts the media types whose streams are silent when there is nothing to say.
func idleLimit(limit time.Duration, h http.Header) time.Duration {
	if ct := h["Content-Type"]; len(ct) > 0 && (strings.HasPrefix(ct[0], "text/event-stream") || strings.HasPrefix(ct[0], "application/grpc")) {
		return 0
	}
	return limit
}

// ending closes an exchange's books, once.
type ending struct {
	pool         *Pool
	target       *target
	transport    *http.Transport
	out          *outbound
	gatewayError bool
	done         atomic.Bool
}

// finish reports whether this call ended the exchange; cause ends what of it is still running.
func (e *ending) finish(cause error) bool {
	if e.done.Swap(true) {
		return false
	}
	e.target.inFlight.Add(-1)
	e.out.cancel(cause)
	e.out.body.abandon()
	e.target.retire(e.transport)
	e.pool.gate.leave()
	return true
}

// clean ends an exchange whose response is whole.
func (e *ending) clean() {
	if !e.finish(errFinished) {
		return
	}
	if e.gatewayError {
		e.target.health.failed(e.pool.now())
		return
	}
	e.target.health.succeeded()
}

// broken ends an exchange that failed inside the body.
func (e *ending) broken(failure *Error) {
	if e.finish(failure) {
		e.pool.blame(e.target, failure, false)
	}
}

// left ends an exchange whose reader closed early: no verdict on the origin.
func (e *ending) left() { e.finish(context.Canceled) }

// body is a response body. Its timer runs only while a Read waits, so that a slow reader is no slow origin.
//
// Read is for one goroutine at a time; Close is safe at any time.
type body struct {
	src     io.ReadCloser
	idle    time.Duration // 0: no limit
	limit   *idleTimer    // nil until the first Read; owned by the reader
	expired atomic.Bool
	err     error // sticky; owned by the reader
	ending
}

// Read reads from the origin. Errors other than io.EOF are an *Error.
func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	b.arm()
	n, err := b.src.Read(p)
	inTime := b.limit.stop()
	if err != nil {
		b.recycle(inTime)
		b.err = b.ended(err)
		return n, b.err
	}
	return n, nil
}

func (b *body) arm() {
	if b.idle <= 0 {
		return
	}
	if b.limit == nil {
		b.limit = b.pool.idleTimer(b)
	}
	b.limit.timer.Reset(b.idle)
}

// recycle gives the timer back after the last Read. One that may have fired is left to the collector.
func (b *body) recycle(stopped bool) {
	if b.limit != nil && stopped {
		b.limit.body.Store(nil)
		b.pool.timers.Put(b.limit)
	}
	b.limit = nil
}

// expire ends a Read that waited too long, by closing the source under it.
func (b *body) expire() {
	b.expired.Store(true)
	b.src.Close()
}

// ended turns the source's error into the reader's and closes the books.
func (b *body) ended(err error) error {
	if err == io.EOF {
		b.clean()
		return io.EOF
	}
	failure := b.classify(err)
	b.broken(failure)
	return failure
}

func (b *body) classify(err error) *Error {
	url := b.target.name
	if b.expired.Load() || isDeadline(err) && callerEnded(b.out.in.Context(), url) == nil {
		return &Error{Class: ClassBodyTimeout, URL: url, Err: errIdleBody}
	}
	if ended := callerEnded(b.out.in.Context(), url); ended != nil {
		return ended
	}
	if cause := context.Cause(b.out.ctx); errors.Is(cause, errIdleSend) {
		return &Error{Class: ClassSendTimeout, URL: url, Err: cause}
	}
	if failed := b.out.body.failure(); failed != nil {
		return &Error{Class: ClassRequest, URL: url, Err: failed}
	}
	if b.done.Load() { // Close came before
		return &Error{Class: ClassCanceled, URL: url, Err: err}
	}
	return &Error{Class: classifyBody(err), URL: url, Err: err}
}

// Close releases the connection, which is used again if the body was read to its end.
func (b *body) Close() error {
	b.left()
	return b.src.Close()
}

// switched is the connection after a 101: bytes both ways, no limit on silence.
type switched struct {
	io.ReadWriteCloser
	end *ending
}

// Close closes the connection.
func (s *switched) Close() error {
	s.end.left()
	return s.ReadWriteCloser.Close()
}

// CloseWrite ends the sending side.
func (s *switched) CloseWrite() error {
	half, ok := s.ReadWriteCloser.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}
