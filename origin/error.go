package origin

import (
	"context"
	"errors"
	"io"
	"net"
	"net/textproto"
	"strings"
	"syscall"

	"golang.org/x/net/http2"
)

// Error is what RoundTrip and the bodies it returns fail with, io.EOF apart. It unwraps to its cause: to the caller's
// context error and its cause for ClassCanceled and ClassDeadline, to io.ErrUnexpectedEOF for ClassTruncated.
//
// Immutable after it was returned.
type Error struct {
	// Class says what went wrong.
	Class Class
	// URL names the upstream as scheme://host:port, "" if none was chosen. It never holds a path or query.
	URL string
	// Err is the cause. Its text may name addresses and is for logs, not for clients.
	Err error
}

// Error returns the upstream, the class and the cause.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("origin ")
	if e.URL != "" {
		b.WriteString(e.URL)
		b.WriteString(": ")
	}
	b.WriteString(e.Class.String())
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// StatusCode returns the status that tells a client of this error, see [Class.Status].
func (e *Error) StatusCode() int { return e.Class.Status() }

// OriginFault reports whether the origin is to blame, see [Class.OriginFault].
func (e *Error) OriginFault() bool { return e.Class.OriginFault() }

// Timeout reports whether a time limit was reached, the caller's or the origin's.
func (e *Error) Timeout() bool { return e.Class.Status() == 504 && e.Class != ClassCanceled }

// ErrClosed is the cause of ClassClosed, and of failures of exchanges that Close cut off.
var ErrClosed = errors.New("origin: pool closed")

// Causes that this package gives to the contexts and bodies it ends.
var (
	errIdleBody  = errors.New("no byte of the response body within the idle limit")
	errIdleSend  = errors.New("no byte of the request body accepted within the idle limit")
	errBusy      = errors.New("all connections in use")
	errLoop      = errors.New("request came through this proxy too often")
	errNoStatus  = errors.New("status below 100")
	errSwitched  = errors.New("switched protocols unasked")
	errFinished  = errors.New("exchange finished")
	errAbandoned = errors.New("request body no longer wanted")
)

// callerError joins the cause that a caller gave with the bare context error, so that both errors.Is(err,
// context.Canceled) and the caller's own sentinel are found.
type callerError struct{ cause, ended error }

func (e *callerError) Error() string   { return e.cause.Error() }
func (e *callerError) Unwrap() []error { return []error{e.cause, e.ended} }

// callerEnded returns the error of an exchange whose caller's context is over, nil if it is not.
func callerEnded(ctx context.Context, url string) *Error {
	ended := ctx.Err()
	if ended == nil {
		return nil
	}
	e := &Error{Class: ClassCanceled, URL: url, Err: ended}
	if errors.Is(ended, context.DeadlineExceeded) {
		e.Class = ClassDeadline
	}
	if cause := context.Cause(ctx); cause != ended {
		e.Err = &callerError{cause: cause, ended: ended}
	}
	return e
}

// classifyHead finds the class of an error that came instead of a response head. Failures to connect carry theirs
// already: the dialer wraps them.
func classifyHead(err error) Class {
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return ClassHeaderTimeout
	}
	if isReset(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ClassReset
	}
	if unsendable(err) {
		return ClassRequest
	}
	return ClassProtocol
}

// classifyBody finds the class of an error inside a response body.
func classifyBody(err error) Class {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return ClassTruncated
	case isReset(err):
		return ClassReset
	default:
		return ClassProtocol
	}
}

// isReset reports whether the connection, or the HTTP/2 stream, ended without a proper close.
func isReset(err error) bool {
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) {
		return true
	}
	if _, ok := errors.AsType[http2.StreamError](err); ok {
		return true
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Op == "read" || op.Op == "write"
	}
	return isReusedAndClosed(err)
}

// isReusedAndClosed recognises the two errors, unexported by net/http, of a kept connection that the origin closed while the
// request was on its way. TestResetOnReusedConnection fails should their texts change.
func isReusedAndClosed(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		switch err.Error() {
		case "http: server closed idle connection", "http: CloseIdleConnections called":
			return true
		}
	}
	return false
}

// unsendable recognises net/http's refusals to send a request at all. They have no type.
func unsendable(err error) bool {
	if _, ok := errors.AsType[textproto.ProtocolError](err); ok {
		return false
	}
	text := err.Error()
	return strings.HasPrefix(text, "net/http: invalid ") || strings.Contains(text, "http: ContentLength=")
}
