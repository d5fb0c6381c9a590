package cache

import (
	"context"
	"errors"
	"net/http"
	"net/http/httputil"

	"github.com/swrproxy/swrproxy/policy"
)

// upstream is where fills and passes go. RoundTrip serves fills; pass sends the client's request on as it is.
type upstream interface {
	http.RoundTripper
	pass(rd *read)
}

// proxied is an upstream reached through a RoundTripper.
type proxied struct{ http.RoundTripper }

// forwarded are the fields that httputil.ReverseProxy removes before Rewrite; the transport decides on them.
var forwarded = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}

// pass uses httputil.ReverseProxy, which handles upgrades, trailers, 1xx and flushing.
func (p proxied) pass(rd *read) {
	target := rd.target
	out := &heldWriter{countedWriter: countedWriter{ResponseWriter: rd.w, rd: rd}}
	post := rd.beginPost()
	defer post.end()
	proxy := &httputil.ReverseProxy{
		Transport:  p.RoundTripper,
		BufferPool: bufferPool{},
		Rewrite: func(pr *httputil.ProxyRequest) {
			for _, name := range forwarded {
				if v, ok := pr.In.Header[name]; ok {
					pr.Out.Header[name] = v
				}
			}
			pr.Out.URL = target.URL()
			pr.Out.Host = target.Authority
		},
		ModifyResponse: func(resp *http.Response) error {
			if post != nil {
				post.answered(resp)
			} else {
				rd.passed(resp.StatusCode, resp.Header)
			}
			out.watch(resp)
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) {
			if out.hijacked { // the origin has agreed, and the client went before it knew
				rd.ev.ClientGone = true
				return
			}
			rd.passFailed(err)
			out.sendEarly()
		},
	}
	defer out.show()
	proxy.ServeHTTP(out, rd.watchUpload())
	if err := out.end(); err != nil {
		clear(rd.w.Header())
		rd.passFailed(err)
	}
}

type bufferPool struct{}

func (bufferPool) Get() []byte  { return *copyBuffers.Get().(*[]byte) }
func (bufferPool) Put(b []byte) { copyBuffers.Put(&b) }

// countedWriter counts what a pass writes. Unwrap keeps flushing, hijacking and deadlines within reach.
type countedWriter struct {
	http.ResponseWriter
	rd *read
}

// Unwrap is for [http.ResponseController].
func (w *countedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *countedWriter) Write(b []byte) (int, error) {
	n, err := w.ResponseWriter.Write(b)
	w.rd.ev.Bytes += int64(n)
	return n, err
}

// handled is an upstream that is a handler in this process.
type handled struct{ handlerTransport }

// pass calls the handler with the client's own writer, so that upgrades and streaming work as without the cache. Cache-Status is put in front
// unless the request is an upgrade.
func (u handled) pass(rd *read) {
	if rd.ev.Reason == policy.ReasonUpgrade {
		rd.ev.Status = http.StatusSwitchingProtocols
		u.next.ServeHTTP(rd.w, rd.r)
		return
	}
	u.next.ServeHTTP(&statusWriter{countedWriter: countedWriter{ResponseWriter: rd.w, rd: rd}}, rd.r)
}

// statusWriter adds Cache-Status when a passed handler begins its answer.
type statusWriter struct {
	countedWriter
	begun bool
}

func (w *statusWriter) WriteHeader(status int) {
	if !w.begun && status >= 200 {
		w.begun = true
		w.rd.passed(status, w.Header())
	}
	w.countedWriter.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	return w.countedWriter.Write(b)
}

// pass sends the request straight to the upstream.
func (rd *read) pass(why policy.Reason) {
	rd.ev.Result, rd.ev.Reason = ResultPass, why
	rd.status.Fwd = policy.FwdBypass
	if why == policy.ReasonMethod {
		rd.status.Fwd = policy.FwdMethod
	}
	rd.status.Detail = why.String()
	rd.up.pass(rd)
}

// passed sees the head of a passed response before it goes to the client. It returns how many entries of the log that made.
func (rd *read) passed(status int, h http.Header) (entries int) {
	rd.ev.Status = status
	rd.status.FwdStatus = status
	policy.AddCacheStatus(h, &rd.status)
	if policy.Invalidates(rd.r.Method, status) {
		return rd.c.invalidateBy(rd, h)
	}
	return 0
}

// passFailed answers for an upstream that failed a passed request.
func (rd *read) passFailed(err error) {
	if rd.uploadLate() {
		rd.answered = true // the context has ended all the same: net/http takes that for a client that is gone
		rd.refuse(http.StatusRequestTimeout, policy.ReasonBadRequest, errUploadLate)
		return
	}
	if rd.ctx.Err() != nil && errors.Is(err, context.Canceled) {
		rd.ev.ClientGone, rd.ev.Status = true, statusClientClosed
		panic(http.ErrAbortHandler)
	}
	status := statusOf(err)
	if status == http.StatusBadRequest {
		rd.refuse(status, policy.ReasonBadRequest, err) // the client's own body broke off
		return
	}
	rd.ev.Err = err
	rd.reject(status, policy.ReasonOriginFailed, ResultError)
}
