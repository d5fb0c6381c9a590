package origin

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"

	"github.com/swrproxy/swrproxy/internal/hopbyhop"
)

// outbound is what goes to the origin in one exchange, the same for every URL that is tried. It belongs to the goroutine
// in RoundTrip, then to the response's body.
type outbound struct {
	pool    *Pool
	in      *http.Request
	ctx     context.Context
	cancel  context.CancelCauseFunc // ends what outlives RoundTrip; never nil
	body    *upload                 // nil without a request body
	upgrade string                  // the protocol asked for, "" for none
	walk    walk
}

// outbound prepares the exchange of req.
func (p *Pool) outbound(req *http.Request) *outbound {
	o := &outbound{pool: p, in: req, ctx: req.Context(), cancel: nothing, upgrade: upgradeAsked(req)}
	hasBody := req.Body != nil && req.Body != http.NoBody
	if hasBody || p.cfg.Pool.MaxConns > 0 {
		o.ctx, o.cancel = context.WithCancelCause(o.ctx)
	}
	if hasBody {
		o.body = &upload{src: req.Body, size: req.ContentLength, idle: p.cfg.Timeouts.IdleBody, cancel: o.cancel}
	}
	if p.cfg.Pool.MaxConns > 0 && p.cfg.Timeouts.Header > 0 {
		o.ctx = boundWait(o.ctx, p.cfg.Timeouts.Header, o.cancel)
	}
	return o
}

func nothing(error) {}

// upgradeAsked returns the protocol of a client's upgrade if it is one that may pass. Others are dropped: h2c would
// open a connection past every rule.
func upgradeAsked(req *http.Request) string {
	if upgrade := hopbyhop.UpgradeType(req.Header); upgrade == "websocket" && req.ProtoMajor < 2 {
		return upgrade
	}
	return ""
}

// boundWait ends an exchange that gets no connection within limit.
func boundWait(ctx context.Context, limit time.Duration, cancel context.CancelCauseFunc) context.Context {
	timer := time.AfterFunc(limit, func() { cancel(errBusy) })
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { timer.Stop() },
	})
}

// request makes the request for one URL. Each try has its own: net/http may still hold the one before. The copy keeps
// the caller's traces, through which 1xx responses arrive, and the Trailer map, which fills while the body is read.
func (o *outbound) request(t *target) *http.Request {
	out := o.in.WithContext(o.ctx)
	out.URL = t.url(o.in.URL)
	out.Host = t.hostFor(o.in)
	out.Header = o.pool.header(o.in, o.upgrade)
	out.RequestURI = ""
	out.TransferEncoding = nil
	out.Close = false
	out.Response = nil
	out.GetBody = nil
	out.Body = nil
	if o.body != nil {
		out.Body = o.body
	} else {
		out.ContentLength = 0
	}
	return out
}

// url puts the target's host and base path before the request's path and query, whose bytes stay as they are.
func (t *target) url(in *url.URL) *url.URL {
	out := &url.URL{Scheme: t.scheme, Host: t.host, Path: in.Path, RawPath: in.RawPath, RawQuery: in.RawQuery, ForceQuery: in.ForceQuery}
	if t.base == "" || in.Path == "*" {
		return out
	}
	if t.unusual || in.RawPath != "" {
		out.RawPath = t.rawBase + in.EscapedPath()
	}
	out.Path = t.base + in.Path
	return out
}

// hostFor returns the Host to send.
func (t *target) hostFor(in *http.Request) string {
	switch {
	case t.cfg.Host != "":
		return t.cfg.Host
	case t.cfg.HostMode == HostOfURL || in.Host == "":
		return t.host
	default:
		return in.Host
	}
}

// repeatable reports whether the exchange may be tried at another URL after a failure of this class: always if nothing was
// sent; after a reset only if the method is safe and there is no body (RFC 9110 §9.2.2). A late response head is
// not repeated, it would double the caller's wait.
func (o *outbound) repeatable(c Class) bool {
	if o.body != nil {
		return c.beforeSend() && o.body.untouched()
	}
	return c.beforeSend() || (c == ClassReset && safe(o.in.Method))
}

// safe reports whether the method is safe (RFC 9110 §9.2.1).
func safe(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}
