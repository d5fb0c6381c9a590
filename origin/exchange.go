package origin

import (
	"context"
	"errors"
	"net/http"

	"github.com/swrproxy/swrproxy/internal/hopbyhop"
)

// RoundTrip sends an inbound request to the origin and returns the origin's response, whatever its status. See the
// package's documentation for what is changed on the way. It blocks until the response head arrived, an error is final,
// or the request's context ends. The caller closes the response's body, from which the exchange, its connection and its
// count in Status last. Every error is an *[Error].
//
// req and its header are not modified; its body is closed, possibly after RoundTrip returned.
func (p *Pool) RoundTrip(req *http.Request) (*http.Response, error) {
	out, err := p.enter(req)
	if err != nil {
		return nil, err
	}
	if n, ok := forwardsLeft(req); ok && n == 0 {
		closeRequest(req)
		p.gate.leave()
		return answerLast(req), nil
	}
	resp, failure := p.exchange(out)
	return p.result(out, resp, failure)
}

// enter begins the exchange of req. Its result, or the end of its response's body, takes it out again.
func (p *Pool) enter(req *http.Request) (*outbound, error) {
	if !p.gate.enter() {
		closeRequest(req)
		return nil, &Error{Class: ClassClosed, Err: ErrClosed}
	}
	if p.loops(req.Header) {
		closeRequest(req)
		p.gate.leave()
		return nil, &Error{Class: ClassLoop, Err: errLoop}
	}
	out := p.outbound(req)
	out.walk.start = p.next.Add(1)
	return out, nil
}

// result is what RoundTrip returns of an exchange.
func (p *Pool) result(out *outbound, resp *http.Response, failure *Error) (*http.Response, error) {
	if failure != nil {
		out.cancel(failure)
		closeRequest(out.in)
		p.gate.leave()
		return nil, failure
	}
	return resp, nil
}

func closeRequest(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// exchange tries one URL after another, each at most once, for as long as the request may be repeated.
func (p *Pool) exchange(out *outbound) (*http.Response, *Error) {
	for {
		t, probe := p.pick(&out.walk)
		p.begin(t)
		resp, tr, failure := t.send(out)
		resp, failure = p.book(t, probe, out, resp, tr, failure)
		if failure == nil || !p.mayRepeat(out, failure) {
			return resp, failure
		}
	}
}

// mayRepeat tells whether there is a URL left for another try after a failure.
func (p *Pool) mayRepeat(out *outbound, failure *Error) bool {
	return len(out.walk.tried) < len(p.targets) && out.repeatable(failure.Class)
}

// begin counts a try at a URL, book its result.
func (p *Pool) begin(t *target) {
	p.refreshAddrs(t)
	t.exchanges.Add(1)
	t.inFlight.Add(1)
}

func (p *Pool) book(t *target, probe bool, out *outbound, resp *http.Response, tr *http.Transport, failure *Error) (*http.Response, *Error) {
	if failure != nil {
		t.inFlight.Add(-1)
		p.blame(t, failure, probe)
		return nil, failure
	}
	t.health.answered()
	p.wrapBody(t, tr, out, resp)
	return resp, nil
}

// send makes the try itself. The transport that was used is nil if it was plain.
func (t *target) send(out *outbound) (*http.Response, *http.Transport, *Error) {
	if t.plain.takes(out) {
		resp, err := t.plain.roundTrip(out)
		if err == nil {
			hopbyhop.Strip(resp.Header)
			return resp, nil, nil
		}
		if err != errNotPlain {
			return nil, nil, out.headError(t, err)
		}
	}
	tr := t.transport(out.upgrade)
	resp, err := tr.RoundTrip(out.request(t))
	if err != nil {
		return nil, tr, out.headError(t, err)
	}
	if resp.StatusCode < 100 {
		resp.Body.Close()
		return nil, tr, &Error{Class: ClassProtocol, URL: t.name, Err: errNoStatus}
	}
	resp.Request = out.in
	if resp.StatusCode == http.StatusSwitchingProtocols {
		resp, failure := checkSwitch(t, out, resp)
		return resp, tr, failure
	}
	trimNames(resp.Header)
	hopbyhop.Strip(resp.Header)
	return resp, tr, nil
}

// checkSwitch refuses a switch to a protocol that was not asked for (RFC 9110 §7.8).
func checkSwitch(t *target, out *outbound, resp *http.Response) (*http.Response, *Error) {
	if out.upgrade != "" && hopbyhop.UpgradeType(resp.Header) == out.upgrade {
		return resp, nil
	}
	resp.Body.Close()
	return nil, &Error{Class: ClassProtocol, URL: t.name, Err: errSwitched}
}

// blame counts a failure and holds it against the URL if the URL is at fault.
func (p *Pool) blame(t *target, failure *Error, probe bool) {
	t.failures[failure.Class].Add(1)
	if failure.Class.OriginFault() {
		t.lastError.Store(&Failure{Class: failure.Class, Err: failure, after: p.now()})
		t.health.failed(p.now())
	} else if probe {
		t.health.unproven(p.now())
	}
}

// headError gives an error that came instead of a response head its class.
func (o *outbound) headError(t *target, err error) *Error {
	if ended := callerEnded(o.in.Context(), t.name); ended != nil {
		return ended
	}
	switch cause := context.Cause(o.ctx); {
	case errors.Is(cause, errIdleSend):
		return &Error{Class: ClassSendTimeout, URL: t.name, Err: cause}
	case errors.Is(cause, errBusy):
		return &Error{Class: ClassBusy, URL: t.name, Err: cause}
	}
	if failed := o.body.failure(); failed != nil {
		return &Error{Class: ClassRequest, URL: t.name, Err: failed}
	}
	if dialed, ok := errors.AsType[*Error](err); ok {
		return dialed
	}
	return &Error{Class: classifyHead(err), URL: t.name, Err: err}
}
