package server

import (
	"net/http"
	"strconv"
	"time"
)

// refusal is why a connection's bytes were turned down before net/http saw them. A closed enum.
type refusal uint8

const (
	// refusalNone is the zero value: nothing was refused.
	refusalNone refusal = iota
	// refusalSyntax is a head that RFC 9112 does not allow, or bytes that are no HTTP at all.
	refusalSyntax
	// refusalFraming is a message whose end two parsers could see in two places (RFC 9112 §6.3).
	refusalFraming
	// refusalHost is a missing, repeated or malformed Host (RFC 9112 §3.2).
	refusalHost
	// refusalCoding is a transfer coding other than chunked alone (RFC 9112 §6.1).
	refusalCoding
	// refusalHeadSize is a head above Options.MaxHeaderBytes.
	refusalHeadSize
	// refusalHeadTime is a head that took longer than Options.ReadHeaderTimeout.
	refusalHeadTime
	// refusalBody is a chunked body that breaks RFC 9112 §7.1; its request is under way, so its reader gets an error
	// and whoever answers it the word.
	refusalBody
	numRefusals
)

var refusals = [numRefusals]struct {
	word   string
	status int
	text   string
}{
	refusalNone:     {"none", http.StatusInternalServerError, ""},
	refusalSyntax:   {"syntax", http.StatusBadRequest, "malformed request"},
	refusalFraming:  {"framing", http.StatusBadRequest, "ambiguous message framing"},
	refusalHost:     {"host", http.StatusBadRequest, "missing or malformed Host"},
	refusalCoding:   {"coding", http.StatusNotImplemented, "unsupported transfer coding"},
	refusalHeadSize: {"head-size", http.StatusRequestHeaderFieldsTooLarge, "request head too large"},
	refusalHeadTime: {"head-time", http.StatusRequestTimeout, "request head took too long"},
	refusalBody:     {"body", http.StatusBadRequest, "malformed chunked body"},
}

// String returns the word used in logs and metrics.
func (r refusal) String() string {
	if r >= numRefusals {
		return refusals[refusalNone].word
	}
	return refusals[r].word
}

// response returns the whole answer, after which the connection closes.
func (r refusal) response(now time.Time) []byte {
	what := refusals[r]
	b := append(make([]byte, 0, 256), "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(what.status), 10)
	b = append(b, ' ')
	b = append(b, http.StatusText(what.status)...)
	b = append(b, "\r\nConnection: close\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(len(what.text)+1), 10)
	b = append(b, "\r\nContent-Type: text/plain; charset=utf-8\r\nDate: "...)
	b = now.UTC().AppendFormat(b, http.TimeFormat)
	b = append(b, "\r\n\r\n"...)
	b = append(b, what.text...)
	return append(b, '\n')
}
