package cache

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"strings"
	"sync"

	"github.com/swrproxy/swrproxy/policy"
)

// handlerTransport is a RoundTripper that asks a handler in this process: the response's head is handed over when the handler
// writes it, the body through a pipe as it is written.
type handlerTransport struct{ next http.Handler }

// RoundTrip runs the handler in a goroutine of its own, which ends when the handler does; closing the body makes the handler's
// writes fail. A handler that panics, or writes less than its Content-Length, breaks the body off.
func (t handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	in := r.Clone(ctx)
	if in.Body == nil {
		in.Body = http.NoBody
	}
	if in.Host == "" {
		in.Host = in.URL.Host
	}
	in.RequestURI = in.URL.RequestURI()
	if in.URL.Scheme == "https" && in.TLS == nil {
		in.TLS = &tls.ConnectionState{} // what a handler tells the scheme by
	}
	pr, pw := io.Pipe()
	w := &pipeWriter{
		req: r, h: make(http.Header), pw: pw, length: -1, ready: make(chan struct{}),
		trace: httptrace.ContextClientTrace(ctx),
		resp:  &http.Response{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r},
	}
	w.resp.Body = &pipeBody{PipeReader: pr, cancel: cancel, w: w}
	go w.run(t.next, in, cancel)
	select {
	case <-w.ready:
		return w.resp, w.err
	case <-r.Context().Done(): // not ctx, which also ends with the handler
		err := context.Cause(r.Context())
		pr.CloseWithError(err)
		cancel(err)
		return nil, err
	}
}

// pipeBody ends the handler's context when its reader is done. Not safe for concurrent use.
type pipeBody struct {
	*io.PipeReader
	cancel context.CancelCauseFunc
	w      *pipeWriter
}

// Read fills in the response's trailer at the end of the body, on the reader's goroutine as net/http does: nobody looks at it while it changes.
func (b *pipeBody) Read(p []byte) (int, error) {
	n, err := b.PipeReader.Read(p)
	if err == io.EOF {
		for name := range b.w.resp.Trailer {
			b.w.resp.Trailer[name] = b.w.h[name]
		}
	}
	return n, err
}

func (b *pipeBody) Close() error {
	err := b.PipeReader.Close()
	b.cancel(context.Canceled)
	return err
}

// errHandlerAborted is what readers see when a handler panicked with http.ErrAbortHandler.
var errHandlerAborted = fmt.Errorf("cache: handler aborted: %w", io.ErrUnexpectedEOF)

// pipeWriter is the http.ResponseWriter of a handler run by handlerTransport. Not safe for concurrent use, as any.
type pipeWriter struct {
	req   *http.Request
	h     http.Header
	pw    *io.PipeWriter
	trace *httptrace.ClientTrace

	begin   sync.Once
	ready   chan struct{}
	resp    *http.Response
	err     error
	length  int64
	written int64
}

func (w *pipeWriter) Header() http.Header { return w.h }

// Flush is for handlers that look for http.Flusher: what is written is in the reader's hands anyway.
func (w *pipeWriter) Flush() { w.WriteHeader(http.StatusOK) }

func (w *pipeWriter) WriteHeader(status int) {
	if status >= 100 && status < 200 && status != http.StatusSwitchingProtocols {
		w.hint(status)
		return
	}
	w.begin.Do(func() { w.publish(status) })
}

func (w *pipeWriter) hint(status int) {
	if w.trace != nil && w.trace.Got1xxResponse != nil {
		_ = w.trace.Got1xxResponse(status, textproto.MIMEHeader(w.h.Clone()))
	}
}

func (w *pipeWriter) publish(status int) {
	h := w.h.Clone()
	if n, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64); err == nil && n >= 0 {
		w.length = n
	}
	w.resp.StatusCode = status
	w.resp.Status = strconv.Itoa(status) + " " + http.StatusText(status)
	w.resp.Header = h
	w.resp.ContentLength = w.length
	for _, line := range h["Trailer"] {
		for name := range strings.SplitSeq(line, ",") {
			if w.resp.Trailer == nil {
				w.resp.Trailer = make(http.Header)
			}
			w.resp.Trailer[http.CanonicalHeaderKey(strings.TrimSpace(name))] = nil
		}
	}
	close(w.ready)
}

func (w *pipeWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if !w.hasBody() {
		return len(b), nil
	}
	if w.length >= 0 && w.written+int64(len(b)) > w.length {
		return 0, http.ErrContentLength
	}
	n, err := w.pw.Write(b)
	w.written += int64(n)
	return n, err
}

func (w *pipeWriter) hasBody() bool { return policy.HasContent(w.req.Method, w.resp.StatusCode) }

// run calls the handler and ends the body as the handler ended.
func (w *pipeWriter) run(next http.Handler, in *http.Request, cancel context.CancelCauseFunc) {
	defer func() {
		w.finish(recoverAbort(recover()))
		cancel(context.Canceled)
	}()
	next.ServeHTTP(w, in)
}

// recoverAbort turns a handler's panic into the error that readers see. Recovering here keeps a panic of one fill from ending the
// process: net/http's server does the same for handlers that it runs itself.
func recoverAbort(p any) error {
	switch {
	case p == nil:
		return nil
	case p == http.ErrAbortHandler: //nolint:errorlint // compared as net/http does
		return errHandlerAborted
	default:
		return fmt.Errorf("%w: %v", errFillPanic, p)
	}
}

func (w *pipeWriter) finish(err error) {
	if err != nil {
		w.begin.Do(func() {
			w.err, w.resp = err, nil
			close(w.ready)
		})
		w.pw.CloseWithError(err)
		return
	}
	w.WriteHeader(http.StatusOK)
	if w.length >= 0 && w.written < w.length && w.hasBody() {
		err = io.ErrUnexpectedEOF
	}
	w.pw.CloseWithError(err)
}
