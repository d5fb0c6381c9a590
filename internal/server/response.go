package server

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/swrproxy/swrproxy/policy"
)

// response is the http.ResponseWriter of requests that a loop passes to the handler without net/http: GET and HEAD of HTTP/1.1, without content. It writes
// the bytes that net/http's own would. Used by one goroutine at a time, and not beyond the handler's return.
type response struct {
	conn   *conn
	head   bool // the request is a HEAD
	header http.Header

	done      bool // the handler has returned
	wrote     bool // WriteHeader was called: the status and the fields are settled
	began     bool // the head is in out, or gone
	chunking  bool
	close     bool // the connection ends with this answer
	typed     bool // no Content-Type is to be guessed
	dated     bool
	hasLength bool     // Content-Length is among the fields
	says      bool     // Connection has close among its options
	coding    string   // Transfer-Encoding
	trailers  []string // announced
	prefixed  bool     // there may be trailers that were not
	status    int
	length    int64 // as announced, -1 if not
	written   int64 // bytes that the handler gave
	err       error // of the connection

	out  []byte        // not sent yet
	body *bufio.Writer // gathers what has no announced length, as net/http does
}

const (
	// responseBuffer is up to how much waits in out for more to come.
	responseBuffer = 8 << 10
	// unmeasured is up to which length a body without Content-Length gets one: net/http's buffer.
	unmeasured = 2 << 10
	// sniffed is how much of a body is looked at for its type.
	sniffed = 512
)

var responses = sync.Pool{New: func() any {
	return &response{header: make(http.Header, 16), out: make([]byte, 0, responseBuffer)}
}}

func newResponse(c *conn, method string) *response {
	w := responses.Get().(*response)
	w.conn, w.head, w.length = c, method == http.MethodHead, -1
	return w
}

// release gives the response's memory back. The handler must have returned.
func (w *response) release() {
	clear(w.header)
	if w.body != nil {
		w.body.Reset(gathered{w})
	}
	*w = response{header: w.header, out: w.out[:0], body: w.body}
	responses.Put(w)
}

// Header returns the fields. Changes count until WriteHeader.
func (w *response) Header() http.Header { return w.header }

// WriteHeader settles status and fields. A status from 102 to 199 goes out at once and settles nothing.
func (w *response) WriteHeader(status int) {
	if w.wrote {
		return
	}
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", status)) // a fault of the handler, as it is for net/http
	}
	if status < 200 && status != http.StatusSwitchingProtocols {
		w.statusLine(status)
		w.fields(func(name string) bool { return name == "Content-Length" || name == "Transfer-Encoding" })
		w.out = append(w.out, crlf...)
		w.send()
		return
	}
	w.wrote, w.status = true, status
	w.readFields()
	w.statusLine(status)
	w.fields(w.dropped)
}

// readFields takes what the fields say of framing and connection, all in one go.
func (w *response) readFields() {
	var length, coding, encoding string
	for name, values := range w.header {
		switch name {
		case "Content-Length":
			w.hasLength, length = true, firstOf(values)
		case "Date":
			w.dated = true
		case "Content-Type":
			w.typed = true
		case "Content-Encoding":
			encoding = firstOf(values)
		case "Transfer-Encoding":
			coding = firstOf(values)
		case "Connection":
			w.close, w.says = firstOf(values) == "close", hasCloseToken(firstOf(values))
		case "Trailer":
			for _, v := range values {
				w.announce(v)
			}
		default:
			w.prefixed = w.prefixed || strings.HasPrefix(name, http.TrailerPrefix)
		}
	}
	w.coding = coding
	w.typed = w.typed || encoding != "" || coding != "" || !policy.StatusHasContent(w.status)
	w.readLength(length)
	w.close = w.close || coding == "identity" && w.hasBody() && w.length < 0
	w.chunking = w.hasBody() && w.length < 0 && coding != "identity"
}

// readLength takes Content-Length, which does not go out if it is none, or beside another coding: RFC 9112 §6.2.
func (w *response) readLength(v string) {
	if v == "" {
		return
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err == nil && n >= 0 && (w.coding == "" || w.coding == "identity") {
		w.length = n
		return
	}
	w.hasLength = false
	delete(w.header, "Content-Length")
}

func firstOf(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// announce notes the names of a Trailer field, but for those that say where the message ends: RFC 9110 §6.5.1.
func (w *response) announce(list string) {
	for name := range strings.SplitSeq(list, ",") {
		name = http.CanonicalHeaderKey(textproto.TrimString(name))
		if name != "" && name != "Transfer-Encoding" && name != "Content-Length" && name != "Trailer" {
			w.trailers = append(w.trailers, name)
		}
	}
}

// hasBody tells whether bytes may follow the head.
func (w *response) hasBody() bool { return !w.head && policy.StatusHasContent(w.status) }

// dropped tells whether a field does not go out as the handler set it.
func (w *response) dropped(name string) bool {
	switch name {
	case "Transfer-Encoding":
		return w.coding == "chunked" || !w.chunking
	case "Content-Length":
		return w.chunking || !policy.StatusHasContent(w.status)
	case "Content-Type":
		return w.status == http.StatusNotModified
	case "Connection":
		return w.close && !w.says
	}
	return w.prefixed && strings.HasPrefix(name, http.TrailerPrefix)
}

func hasCloseToken(v string) bool {
	for option := range strings.SplitSeq(v, ",") {
		if strings.EqualFold(textproto.TrimString(option), "close") {
			return true
		}
	}
	return false
}

func (w *response) statusLine(status int) {
	w.out = strconv.AppendInt(append(w.out, "HTTP/1.1 "...), int64(status), 10)
	if text := http.StatusText(status); text != "" {
		w.out = append(append(w.out, ' '), text...)
	} else {
		w.out = strconv.AppendInt(append(w.out, " status code "...), int64(status), 10)
	}
	w.out = append(w.out, crlf...)
}

// fields writes the lines in the order of their names.
func (w *response) fields(dropped func(name string) bool) {
	var room [32]string
	names := room[:0]
	for name := range w.header {
		if !dropped(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if !validName(name) {
			continue
		}
		for _, v := range w.header[name] {
			w.line(name, v)
		}
	}
}

func validName(name string) bool {
	for i := range len(name) {
		if !isToken[name[i]] {
			return false
		}
	}
	return name != ""
}

var newlines = strings.NewReplacer("\n", " ", "\r", " ")

// line writes one field line. A line end in a value would be another field, or worse.
func (w *response) line(name, value string) {
	if strings.IndexByte(value, '\n') >= 0 || strings.IndexByte(value, '\r') >= 0 {
		value = newlines.Replace(value)
	}
	w.out = append(append(append(w.out, name...), ": "...), textproto.TrimString(value)...)
	w.out = append(w.out, crlf...)
}

// begin ends the head, of which only now is known what the handler left open. first are the body's first bytes.
func (w *response) begin(first []byte) {
	if w.began {
		return
	}
	w.began = true
	if !w.dated {
		w.out = append(time.Now().UTC().AppendFormat(append(w.out, "Date: "...), http.TimeFormat), crlf...)
	}
	if w.measurable(first) {
		w.length, w.chunking = int64(len(first)), false
		w.out = append(strconv.AppendInt(append(w.out, "Content-Length: "...), w.length, 10), crlf...)
	}
	if !w.typed && len(first) > 0 {
		w.line("Content-Type", http.DetectContentType(first))
	}
	if w.close && !w.says {
		w.line("Connection", "close")
	}
	if w.chunking {
		w.line("Transfer-Encoding", "chunked")
	}
	w.out = append(w.out, crlf...)
}

// measurable tells whether first is the whole body of a response that lacks a length.
func (w *response) measurable(first []byte) bool {
	return w.done && !w.hasLength && len(w.trailers) == 0 && !w.prefixed && policy.StatusHasContent(w.status) && (!w.head || len(first) > 0) &&
		w.coding == ""
}

// Write sends a part of the body.
func (w *response) Write(p []byte) (int, error) {
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	switch {
	case len(p) == 0:
		return 0, nil
	case !policy.StatusHasContent(w.status):
		return 0, http.ErrBodyNotAllowed
	}
	w.written += int64(len(p))
	switch {
	case w.length < 0:
		return w.gather().Write(p)
	case w.written > w.length:
		return 0, http.ErrContentLength
	}
	return w.put(p)
}

// WriteString is Write.
func (w *response) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

// gather returns the buffer for a body without a length.
func (w *response) gather() *bufio.Writer {
	if w.body == nil {
		w.body = bufio.NewWriterSize(gathered{w}, unmeasured)
	}
	return w.body
}

// gathered takes what the buffer of a body without a length lets go.
type gathered struct{ w *response }

// Write writes one chunk.
func (g gathered) Write(p []byte) (int, error) {
	w := g.w
	w.begin(p)
	if !w.chunking {
		return w.put(p)
	}
	w.out = append(strconv.AppendInt(w.out, int64(len(p)), 16), crlf...)
	if _, err := w.put(p); err != nil {
		return 0, err
	}
	w.out = append(w.out, crlf...)
	return len(p), nil
}

// put sends body bytes behind what waits in out.
func (w *response) put(p []byte) (int, error) {
	w.begin(p)
	switch {
	case w.head:
		return len(p), nil
	case w.err != nil:
		return 0, w.err
	case len(w.out)+len(p) <= responseBuffer:
		w.out = append(w.out, p...)
		return len(p), nil
	}
	n := w.sendWith(p)
	return n, w.err
}

// Flush sends what was written so far.
func (w *response) Flush() { _ = w.FlushError() }

// FlushError is Flush.
func (w *response) FlushError() error {
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	if w.body != nil {
		_ = w.body.Flush() // the error is the connection's, which stays
	}
	w.begin(nil)
	w.send()
	return w.err
}

// ReadFrom sends a body; one of known length from a file by sendfile.
func (w *response) ReadFrom(src io.Reader) (n int64, err error) {
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	if !w.began && !w.typed {
		n, err = io.Copy(writerOnly{w}, io.LimitReader(src, sniffed))
		if err != nil || n < sniffed {
			return n, err
		}
	}
	if err := w.FlushError(); err != nil {
		return n, err
	}
	if w.chunking || !w.hasBody() {
		m, err := io.Copy(writerOnly{w}, src)
		return n + m, err
	}
	m, err := w.conn.ReadFrom(src)
	w.written += m
	w.fail(err)
	return n + m, err
}

// finish sends the rest of the response when the handler has returned.
func (w *response) finish() {
	w.done = true
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	if w.body != nil {
		_ = w.body.Flush() // as in FlushError
	}
	w.begin(nil)
	if w.chunking {
		w.out = append(w.out, "0\r\n"...)
		w.writeTrailers()
		w.out = append(w.out, crlf...)
	}
	w.send()
}

func (w *response) writeTrailers() {
	if len(w.trailers) == 0 && len(w.header) == 0 {
		return
	}
	all := http.Header{}
	for name, values := range w.header {
		if plain, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			all[plain] = values
		}
	}
	for _, name := range w.trailers {
		all[name] = append(all[name], w.header[name]...)
	}
	last := response{header: all, out: w.out}
	last.fields(func(string) bool { return false })
	w.out = last.out
}

// reusable tells whether another request may follow on the connection.
func (w *response) reusable() bool {
	short := w.hasBody() && w.length >= 0 && w.written != w.length
	return !w.close && !short && w.err == nil
}

// SendNow sends what was written so far, as far as the client takes it at once: the rest goes with what follows. So a handler that has something to
// do behind a small answer need not let the client wait for it. An error shows when the handler has returned.
func (w *response) SendNow() {
	if w.began && w.err == nil && len(w.out) > 0 {
		n := w.conn.writeSome(w.out, nil)
		w.out = w.out[:copy(w.out, w.out[n:])]
	}
}

// send sends what waits in out.
func (w *response) send() { w.sendWith(nil) }

// sendWith sends p behind what waits in out, and returns how much of p went.
func (w *response) sendWith(p []byte) (n int) {
	if w.err == nil {
		var err error
		n, err = w.conn.writeBoth(w.out, p)
		w.fail(err)
	}
	w.out = w.out[:0]
	return n
}

// fail keeps the connection's first error, which ends the request, too.
func (w *response) fail(err error) {
	if err == nil || w.err != nil {
		return
	}
	w.err = err
	w.conn.cancelRequest()
}

// SetReadDeadline is for http.ResponseController; there is nothing to read.
func (w *response) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline is for http.ResponseController.
func (w *response) SetWriteDeadline(t time.Time) error { return w.conn.SetWriteDeadline(t) }

// EnableFullDuplex is for http.ResponseController.
func (w *response) EnableFullDuplex() error { return nil }
