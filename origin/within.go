package origin

import (
	"context"
	"net/http"
	"runtime"
	"time"

	"github.com/swrproxy/swrproxy/internal/hopbyhop"
)

// Rest makes what remains of an exchange, as RoundTrip would, on any goroutine. ctx takes the place of the request's context. It must be called, once.
type Rest = func(ctx context.Context) (*http.Response, error)

// RoundTripWithin is RoundTrip for a caller whose goroutine should not wait for long. It returns a response only if that is whole: its body
// can be read without waiting. What takes longer than about patience, and all but the usual (a final response to a GET or HEAD over a kept
// connection), is left to rest. Exactly one of the three is not nil.
//
// An exchange that is alone with its URL may poll for its response for up to 200 µs, see poller: where the URL has answered soon, and CPU time is left.
//
// The end of the request's context is not heeded here, but by rest. patience must be above 0.
func (p *Pool) RoundTripWithin(req *http.Request, patience time.Duration) (resp *http.Response, rest Rest, err error) {
	if p.cfg.Pool.MaxConns > 0 || !bodiless(req) {
		return nil, func(ctx context.Context) (*http.Response, error) { return p.RoundTrip(req.WithContext(ctx)) }, nil
	}
	out, err := p.enter(req)
	if err != nil {
		return nil, nil, err
	}
	t, probe := p.pick(&out.walk)
	p.begin(t)
	var w *wait
	if c := t.plain.ready(out); c != nil {
		resp, w = c.within(out, patience)
	}
	if resp == nil {
		return nil, func(ctx context.Context) (*http.Response, error) { return p.goOn(ctx, out, t, probe, w) }, nil
	}
	resp, _ = p.book(t, probe, out, resp, nil, nil)
	return resp, nil, nil
}

// bodiless tells of the requests that plain may take.
func bodiless(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead:
		return req.Body == nil || req.Body == http.NoBody
	}
	return false
}

// goOn ends an exchange whose try at t has begun. w is how far it came, nil if nothing was sent.
func (p *Pool) goOn(ctx context.Context, out *outbound, t *target, probe bool, w *wait) (*http.Response, error) {
	out.in = out.in.WithContext(ctx)
	out.ctx = ctx
	resp, tr, failure := t.goOn(out, w)
	resp, failure = p.book(t, probe, out, resp, tr, failure)
	if failure != nil && p.mayRepeat(out, failure) {
		resp, failure = p.exchange(out)
	}
	return p.result(out, resp, failure)
}

func (t *target) goOn(out *outbound, w *wait) (*http.Response, *http.Transport, *Error) {
	if w == nil {
		return t.send(out)
	}
	resp, err := w.end(out)
	switch {
	case err == nil:
		hopbyhop.Strip(resp.Header)
		return resp, nil, nil
	case w.unheard && out.ctx.Err() == nil:
		return t.send(out) // once more, as roundTrip does
	default:
		return nil, nil, out.headError(t, err)
	}
}

// ready returns a kept connection for an exchange that plain may make, nil if there is none. p may be nil.
func (p *plain) ready(o *outbound) *plainConn {
	if !p.takes(o) {
		return nil
	}
	c := p.pop()
	if c != nil && c.raw == nil {
		p.put(c) // no socket: writing may wait
		return nil
	}
	return c
}

// wait is an exchange of a plain connection whose response is not whole yet. It belongs to one goroutine at a time.
type wait struct {
	c       *plainConn
	b       *plainBody
	resp    *http.Response // its head, if that came
	failed  error          // why there is nothing to wait for
	unheard bool           // the failure is that of a kept connection that the origin closed before it said anything
}

// usualHead is the length of a request head that the socket of a silent connection takes at once.
const usualHead = 4 << 10

// within sends a request and returns the response if that is whole within patience. Both results are nil if nothing was sent.
func (c *plainConn) within(o *outbound, patience time.Duration) (*http.Response, *wait) {
	buf := c.plain.head()
	defer c.plain.heads.Put(buf)
	head, ok := o.appendHead((*buf)[:0], c.plain.t)
	*buf = head
	if !ok || len(head) > usualHead {
		c.plain.put(c)
		return nil, nil
	}
	b := c.begin()
	// Whoever else can run comes first, so that the requests of several goroutines go out close together: waking a peer for each costs more.
	runtime.Gosched()
	began := c.readWithin(patience)
	c.polls = c.plain.t.inFlight.Load() == 1 && c.plain.poller.may(began)
	_ = c.send(head) // in fact with the first read
	_, err := c.br.Peek(1)
	c.plain.poller.learn(time.Since(began), c.polled)
	switch {
	case err == nil:
		return c.wholeResponse(o, b)
	case c.unsent():
		c.plain.put(c)
		return nil, nil
	default:
		return nil, c.unready(b, err)
	}
}

// unsent reports whether the time was over before anything was sent, and readies the connection for another exchange if so.
func (c *plainConn) unsent() bool {
	if !isDeadline(c.failed) || c.first.state != swapLook {
		return false
	}
	c.failed = nil
	return true
}

// readWithin sets the time for what comes next, and returns when that begins. The deadline is used for several exchanges: setting one costs more than
// reading the clock.
func (c *plainConn) readWithin(patience time.Duration) (now time.Time) {
	now = time.Now()
	if c.readBy.Sub(now) < patience {
		c.readBy = now.Add(2 * patience)
		_ = c.conn.SetReadDeadline(c.readBy)
	}
	return now
}

// unready tells why there is no byte of a response yet.
func (c *plainConn) unready(b *plainBody, err error) *wait {
	if isDeadline(c.failed) && c.first.state == swapWait {
		c.failed = nil
		return &wait{c: c, b: b}
	}
	w := &wait{failed: c.headError(err), unheard: c.closedUnheard(err) || c.first.state == swapLook}
	b.Close()
	return w
}

// wholeResponse reads a response of which something is in the buffer, if all of it is.
func (c *plainConn) wholeResponse(o *outbound, b *plainBody) (*http.Response, *wait) {
	resp, _, _, err := c.bufferedResponse(o, b)
	switch {
	case err != nil:
		b.Close()
		return nil, &wait{failed: err}
	case resp == nil:
		return nil, &wait{c: c, b: b}
	}
	resp = c.responded(resp, b)
	hopbyhop.Strip(resp.Header)
	if resp.Body == b && !b.whole() {
		return nil, &wait{c: c, b: b, resp: resp}
	}
	return resp, nil
}

// end waits for the response.
func (w *wait) end(o *outbound) (*http.Response, error) {
	if w.failed != nil {
		return nil, w.failed
	}
	w.b.watch(o.ctx)
	if w.resp != nil {
		return w.resp, nil
	}
	w.c.limitHead()
	resp, err := w.c.respond(o, w.b)
	w.unheard = err != nil && w.c.closedUnheard(err)
	return resp, err
}
