package origin

import (
	"bytes"
	"errors"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/swrproxy/swrproxy/internal/hopbyhop"
)

// readResponse reads the head of a response. The usual ones, complete in the buffer and clean to the last byte, are parsed here; everything else is
// left to net/http, byte for byte, and what net/http does not say of it is added.
func (c *plainConn) readResponse(o *outbound, b *plainBody) (*http.Response, error) {
	var seen responseHead
	var raw string
	if _, err := c.br.Peek(1); err == nil {
		var resp *http.Response
		if resp, seen, raw, err = c.bufferedResponse(o, b); resp != nil || err != nil {
			return resp, err
		}
	}
	resp, err := http.ReadResponse(c.br, o.in)
	if err != nil {
		return nil, err
	}
	b.src, b.last = resp.Body, resp.Close
	return resp, mend(resp, &seen, raw)
}

// bufferedResponse reads a head that is whole in the buffer. No response and no error leave it there for net/http; seen and raw are what
// it knows of it.
func (c *plainConn) bufferedResponse(o *outbound, b *plainBody) (resp *http.Response, seen responseHead, raw string, err error) {
	b.src, b.left, b.last = nil, 0, false // a 1xx response may have been before
	buffered, _ := c.br.Peek(c.br.Buffered())
	end := bytes.Index(buffered, endOfHead)
	if end < 0 {
		return nil, seen, "", nil
	}
	raw = string(buffered[:end+len(endOfHead)])
	seen, clean := parseHead(raw)
	resp, err = seen.response(o, b)
	if !clean || resp == nil && err == nil {
		return nil, seen, raw, nil
	}
	_, _ = c.br.Discard(end + len(endOfHead)) // as many are there
	return resp, seen, raw, err
}

// mend does what net/http leaves undone in a head: fields that Connection lists beside close go with it (RFC 9110 §7.6.1), white space behind names
// is removed (RFC 9112 §5.1), Pragma is no Cache-Control in a response (RFC 9111 §5.4), and a coding in HTTP/1.0, of which nobody knows whether it was applied, is refused (RFC 9112 §6.1).
func mend(resp *http.Response, seen *responseHead, raw string) error {
	hopbyhop.DeleteListed(resp.Header, seen.header["Connection"])
	trimNames(resp.Header)
	lower := strings.ToLower(raw)
	if raw != "" && len(resp.Header["Pragma"]) > 0 && !strings.Contains(lower, "\ncache-control") {
		delete(resp.Header, "Cache-Control") // net/http's own
	}
	if resp.ProtoMajor == 1 && resp.ProtoMinor == 0 && strings.Contains(lower, "\ntransfer-encoding") {
		return errOldCoding
	}
	return nil
}

// trimNames gives fields whose names were followed by white space their proper names: RFC 9112 §5.1.
func trimNames(h http.Header) {
	for name, values := range h {
		proper := strings.TrimRight(name, " \t")
		if len(proper) == len(name) {
			continue
		}
		delete(h, name)
		proper = textproto.CanonicalMIMEHeaderKey(proper)
		h[proper] = append(h[proper], values...)
	}
}

var endOfHead = []byte("\r\n\r\n")

// responseHead is a response's head, as far as it matters to where the response ends.
type responseHead struct {
	status   string // code and reason
	code     int
	header   http.Header
	length   string // Content-Length, "" for none
	transfer string // Transfer-Encoding, "" for none
	close    bool
}

// errFraming refuses a response that may end in two places (RFC 9112 §6.3).
var errFraming = errors.New("response with both Transfer-Encoding and Content-Length")

// errOldCoding refuses an HTTP/1.0 response with Transfer-Encoding.
var errOldCoding = errors.New("HTTP/1.0 response with Transfer-Encoding")

// response makes the response and tells the body where it ends: RFC 9112 §6.3. Nil without an error is for net/http: chunked and unlimited bodies.
//
// Deviation: RFC 9112 §6.1, a transfer coding that nobody knows is taken for noise, as most proxies do: its bytes pass as they are until the origin closes.
func (h *responseHead) response(o *outbound, b *plainBody) (*http.Response, error) {
	resp := &http.Response{
		Status: h.status, StatusCode: h.code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h.header, Close: h.close, Request: o.in, Body: http.NoBody,
	}
	b.last = h.close
	none := o.in.Method == http.MethodHead || h.code == http.StatusNoContent || h.code == http.StatusNotModified
	length, err := strconv.ParseInt(h.length, 10, 64)
	switch {
	case h.transfer != "" && h.length != "":
		return nil, errFraming
	case h.transfer != "":
		if hasKnownCoding(h.transfer) {
			return nil, nil
		}
		b.last, resp.Close = true, true
		resp.ContentLength = -1
		if !none {
			b.left, resp.Body = untilClose, b
		}
	case h.length == "" || err != nil:
		return nil, nil
	case o.in.Method == http.MethodHead:
		resp.ContentLength = length
	case !none && length > 0:
		resp.ContentLength = length
		b.left, resp.Body = length, b
	}
	return resp, nil
}

// hasKnownCoding tells of transfer codings that mean something (RFC 9112 §7): net/http undoes chunked and refuses the others, whose bytes are not the
// content.
func hasKnownCoding(transfer string) bool {
	for coding := range strings.SplitSeq(strings.ToLower(transfer), ",") {
		name, _, _ := strings.Cut(strings.Trim(coding, " \t"), ";")
		switch strings.TrimRight(name, " \t") {
		case "chunked", "gzip", "x-gzip", "deflate", "compress", "x-compress":
			return true
		}
	}
	return false
}

// parseHead parses a head up to and including its empty line. False means that it holds something that net/http has to judge.
func parseHead(s string) (h responseHead, clean bool) {
	line, rest, _ := strings.Cut(s, "\r\n")
	if !h.statusLine(line) {
		return h, false
	}
	n := strings.Count(rest, "\n") - 1
	if n < 0 {
		return h, false
	}
	h.header = make(http.Header, n)
	values := make([]string, n)
	for i := range n {
		line, rest, _ = strings.Cut(rest, "\r\n")
		name, value, ok := strings.Cut(line, ":")
		name = strings.TrimRight(name, " \t")
		if !ok || !isToken(name) {
			return h, false
		}
		value = strings.Trim(value, " \t")
		name = textproto.CanonicalMIMEHeaderKey(name)
		if !isValue(value) || !h.note(name, value) {
			return h, false
		}
		if lines, again := h.header[name]; again {
			h.header[name] = append(lines, value)
			continue
		}
		values[i] = value
		h.header[name] = values[i : i+1 : i+1]
	}
	return h, rest == "\r\n"
}

// statusLine takes the line of a final HTTP/1.1 response.
func (h *responseHead) statusLine(line string) bool {
	const version = "HTTP/1.1 "
	if len(line) < len(version)+3 || line[:len(version)] != version {
		return false
	}
	h.status = line[len(version):]
	code := h.status[:3]
	if code[0] < '2' || code[0] > '9' || !isDigits(code) || len(h.status) > 3 && h.status[3] != ' ' || !isValue(h.status) {
		return false
	}
	h.code, _ = strconv.Atoi(code)
	return true
}

// note takes what says where the response ends; false for what net/http treats in a special way.
func (h *responseHead) note(name, value string) bool {
	switch name {
	case "Content-Length":
		if h.length != "" || !isDigits(value) || len(value) > 18 {
			return false
		}
		h.length = value
	case "Transfer-Encoding":
		if h.transfer != "" || value == "" {
			return false
		}
		h.transfer = value
	case "Connection":
		h.close = h.close || httpguts.HeaderValuesContainsToken([]string{value}, "close")
	case "Trailer":
		return false
	}
	return true
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// isToken: RFC 9110 §5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		if !tokenByte[s[i]] {
			return false
		}
	}
	return s != ""
}

var tokenByte = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c))
	}
	return t
}()

// isValue: RFC 9110 §5.5, no control characters but the tab.
func isValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
