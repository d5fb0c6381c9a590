package origin

import "net/http"

// Class says what went wrong in an exchange, and so who is to blame. A closed enum; the words of String are labels in
// logs and metrics.
type Class uint8

const (
	// ClassUnknown is the zero value; no error of this package carries it.
	ClassUnknown Class = iota
	// ClassConnect means that no connection came about: refused, unreachable, no local port.
	ClassConnect
	// ClassConnectTimeout means that no connection came about within Timeouts.Connect.
	ClassConnectTimeout
	// ClassDNS means that the origin's name did not resolve.
	ClassDNS
	// ClassTLS means that the handshake failed, in time or in substance (certificate, protocol, not TLS at all).
	ClassTLS
	// ClassBusy means that Pool.MaxConns connections were all in use for too long.
	ClassBusy
	// ClassHeaderTimeout means that no response head came within Timeouts.Header.
	ClassHeaderTimeout
	// ClassReset means that the connection ended before the response head, or was reset inside the body.
	ClassReset
	// ClassBodyTimeout means that no byte of the response body came for Timeouts.IdleBody.
	ClassBodyTimeout
	// ClassSendTimeout means that the origin took no byte of the request body for Timeouts.IdleBody.
	ClassSendTimeout
	// ClassTruncated means that the response body ended before its announced end; the error wraps io.ErrUnexpectedEOF.
	ClassTruncated
	// ClassProtocol means that the origin's answer was not well-formed HTTP, had too large a head, or switched protocols unasked.
	ClassProtocol
	// ClassCanceled means that the caller gave up: its context was cancelled. Never held against the origin.
	ClassCanceled
	// ClassDeadline means that the caller's context reached its deadline. Never held against the origin.
	ClassDeadline
	// ClassRequest means that the request could not be sent as it is: its own body failed, or a field is malformed. Never
	// held against the origin.
	ClassRequest
	// ClassLoop means that the request came through this proxy too often already, going by Via.
	ClassLoop
	// ClassClosed means that the pool was closed before the exchange began.
	ClassClosed
	// NumClasses is the number of classes.
	NumClasses
)

var classes = [NumClasses]struct {
	word   string
	status int
	fault  bool // counts against the origin's health
}{
	ClassUnknown:        {"unknown", http.StatusBadGateway, false},
	ClassConnect:        {"connect", http.StatusBadGateway, true},
	ClassConnectTimeout: {"connect-timeout", http.StatusGatewayTimeout, true},
	ClassDNS:            {"dns", http.StatusBadGateway, true},
	ClassTLS:            {"tls", http.StatusBadGateway, true},
	ClassBusy:           {"busy", http.StatusServiceUnavailable, false},
	ClassHeaderTimeout:  {"header-timeout", http.StatusGatewayTimeout, true},
	ClassReset:          {"reset", http.StatusBadGateway, true},
	ClassBodyTimeout:    {"body-timeout", http.StatusGatewayTimeout, true},
	ClassSendTimeout:    {"send-timeout", http.StatusGatewayTimeout, true},
	ClassTruncated:      {"truncated", http.StatusBadGateway, true},
	ClassProtocol:       {"protocol", http.StatusBadGateway, true},
	ClassCanceled:       {"canceled", http.StatusGatewayTimeout, false},
	ClassDeadline:       {"deadline", http.StatusGatewayTimeout, false},
	ClassRequest:        {"request", http.StatusBadRequest, false},
	ClassLoop:           {"loop", http.StatusLoopDetected, false},
	ClassClosed:         {"closed", http.StatusServiceUnavailable, false},
}

// String returns the class's word in logs and metrics.
func (c Class) String() string {
	if c >= NumClasses {
		c = ClassUnknown
	}
	return classes[c].word
}

// Status returns the status code to answer with when nothing better can be served (RFC 9110 §15.6): 502 when the
// origin answered badly or not at all, 504 when it, or the caller's patience, took too long; 400 for ClassRequest, 503
// for ClassBusy and ClassClosed, 508 (RFC 5842 §7.2) for ClassLoop.
func (c Class) Status() int {
	if c >= NumClasses {
		c = ClassUnknown
	}
	return classes[c].status
}

// OriginFault reports whether the class is held against the origin. It is false when the caller gave up or asked for
// something that can not be sent: no reason for a back-off, a penalty or a stale answer's warning.
func (c Class) OriginFault() bool { return c < NumClasses && classes[c].fault }

// beforeSend reports whether nothing of the request can have reached the origin, so that any request may go elsewhere.
func (c Class) beforeSend() bool {
	switch c {
	case ClassConnect, ClassConnectTimeout, ClassDNS, ClassTLS:
		return true
	}
	return false
}
