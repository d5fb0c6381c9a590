package integration

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// strictAnswer is an HTTP/1.1 answer as it stood on the wire.
type strictAnswer struct {
	status int
	// head is the status line and the field lines, for messages.
	head    string
	fields  []fieldLine
	body    []byte
	trailer []fieldLine
}

// fieldLine is a field without the white space around its value.
type fieldLine struct{ name, value string }

// get returns the first value of a field, without regard to letter case.
func get(lines []fieldLine, name string) string {
	for _, f := range lines {
		if strings.EqualFold(f.name, name) {
			return f.value
		}
	}
	return ""
}

func (a *strictAnswer) get(name string) string { return get(a.fields, name) }

// count tells how many lines a field has.
func (a *strictAnswer) count(name string) (n int) {
	for _, f := range a.fields {
		if strings.EqualFold(f.name, name) {
			n++
		}
	}
	return n
}

// closes tells whether the server ends the connection after this answer.
func (a *strictAnswer) closes() bool { return strings.EqualFold(a.get("Connection"), "close") }

// readStrict reads one final answer to a request with method, and takes nothing for an answer that RFC 9112 does not allow, or that a
// recipient could read in two ways: net/http's own reader forgives much of it.
func readStrict(br *bufio.Reader, method string) (a strictAnswer, err error) {
	line, err := readLine(br)
	a.head = line
	if err != nil {
		return a, fmt.Errorf("status line %q: %w", line, err)
	}
	if a.status, err = statusOf(line); err != nil {
		return a, err
	}
	if a.fields, err = readFields(br, &a.head); err == nil {
		err = checkFields(a.fields)
	}
	if err == nil {
		err = a.readBody(br, method)
	}
	if err != nil {
		return a, fmt.Errorf("%w; head:\n%s", err, a.head)
	}
	return a, nil
}

const maxLine = 64 << 10

// readLine reads up to CRLF; a bare CR or LF is an error (RFC 9112 §2.2).
func readLine(br *bufio.Reader) (string, error) {
	var b []byte
	for {
		c, err := br.ReadByte()
		if err != nil {
			return string(b), err
		}
		switch {
		case c == '\n' && bytes.HasSuffix(b, []byte("\r")):
			return string(b[:len(b)-1]), nil
		case c == '\n', bytes.HasSuffix(b, []byte("\r")):
			return string(b), errors.New("a bare CR or LF")
		case len(b) == maxLine:
			return string(b), errors.New("a line without an end")
		}
		b = append(b, c)
	}
}

// statusOf reads a status line: RFC 9112 §4.
func statusOf(line string) (int, error) {
	rest, ok := strings.CutPrefix(line, "HTTP/1.1 ")
	if !ok || len(rest) < 4 || rest[3] != ' ' || !onlyDigits(rest[:3]) || !isFieldText(rest[4:]) {
		return 0, fmt.Errorf("malformed status line %q", line)
	}
	status, _ := strconv.Atoi(rest[:3])
	if status < 200 || status > 599 {
		return 0, fmt.Errorf("unexpected status line %q", line)
	}
	return status, nil
}

// readFields reads field lines up to the empty line, and adds them to head.
func readFields(br *bufio.Reader, head *string) (fields []fieldLine, err error) {
	for {
		line, err := readLine(br)
		*head += "\n" + line
		if err != nil {
			return fields, fmt.Errorf("field line %q: %w", line, err)
		}
		if line == "" {
			return fields, nil
		}
		f, err := fieldOf(line)
		if err != nil {
			return fields, err
		}
		fields = append(fields, f)
	}
}

// fieldOf reads a field line: RFC 9112 §5. A folded line begins with white space, which no name has.
func fieldOf(line string) (fieldLine, error) {
	name, value, ok := strings.Cut(line, ":")
	value = strings.Trim(value, " \t")
	if !ok || !isToken(name) || !isFieldText(value) {
		return fieldLine{}, fmt.Errorf("malformed field line %q", line)
	}
	return fieldLine{name, value}, nil
}

func isToken(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	}) < 0
}

// isFieldText tells whether s is white space, visible characters and obs-text only.
func isFieldText(s string) bool {
	for i := range len(s) {
		if c := s[i]; c != '\t' && (c < ' ' || c == 0x7f) {
			return false
		}
	}
	return true
}

func onlyDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// lists are the fields that may have several lines.
var lists = []string{"Cache-Control", "Cache-Status", "Connection", "Link", "Set-Cookie", "Surrogate-Key", "Trailer", "Transfer-Encoding", "Vary", "Via"}

// checkFields says what is wrong with the fields of a final answer.
func checkFields(fields []fieldLine) error {
	seen := make(map[string]bool)
	for _, f := range fields {
		name := http.CanonicalHeaderKey(f.name)
		if seen[name] && !slices.Contains(lists, name) {
			return fmt.Errorf("%s comes twice", name)
		}
		seen[name] = true
	}
	if _, err := time.Parse(http.TimeFormat, get(fields, "Date")); err != nil {
		return fmt.Errorf("no proper Date: %w", err)
	}
	if age := get(fields, "Age"); seen["Age"] && !onlyDigits(age) {
		return fmt.Errorf("age %q", age)
	}
	if seen["Content-Length"] && seen["Transfer-Encoding"] {
		return errors.New("both Content-Length and Transfer-Encoding")
	}
	return nil
}

// readBody reads what RFC 9112 §6.3 says that follows the head. The end of the connection is not taken for the end of a body.
func (a *strictAnswer) readBody(br *bufio.Reader, method string) error {
	coding, length := a.get("Transfer-Encoding"), a.get("Content-Length")
	switch {
	case length != "" && !onlyDigits(length):
		return fmt.Errorf("content-length %q", length)
	case coding != "" && coding != "chunked":
		return fmt.Errorf("transfer-encoding %q", coding)
	case (a.status == http.StatusNoContent || a.status == http.StatusNotModified) && coding != "":
		return fmt.Errorf("a transfer coding in an answer of status %d", a.status)
	case method == http.MethodHead || a.status == http.StatusNoContent || a.status == http.StatusNotModified:
		return nil
	case coding != "":
		return a.readChunks(br)
	case length == "":
		return errors.New("a body without length")
	}
	n, err := strconv.Atoi(length)
	if err != nil {
		return err
	}
	a.body = make([]byte, n)
	if n, err := io.ReadFull(br, a.body); err != nil {
		return fmt.Errorf("the body ends after %d of %s bytes: %w", n, length, err)
	}
	return nil
}

// readChunks reads a body in chunks and the trailer behind it: RFC 9112 §7.1.
func (a *strictAnswer) readChunks(br *bufio.Reader) error {
	for {
		line, err := readLine(br)
		if err != nil {
			return fmt.Errorf("chunk size %q: %w", line, err)
		}
		n, err := strconv.ParseUint(line, 16, 31)
		if err != nil || strings.ContainsAny(line, "+_") {
			return fmt.Errorf("chunk size %q", line)
		}
		if n == 0 {
			a.trailer, err = readFields(br, &a.head)
			return err
		}
		chunk := make([]byte, n+2)
		if _, err := io.ReadFull(br, chunk); err != nil {
			return fmt.Errorf("the body ends in a chunk of %d bytes: %w", n, err)
		}
		if !bytes.HasSuffix(chunk, []byte("\r\n")) {
			return fmt.Errorf("no CRLF behind a chunk of %d bytes", n)
		}
		a.body = append(a.body, chunk[:n]...)
	}
}

// readStrict itself takes what is right and nothing else.
func TestReadStrict(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	date := "Date: " + time.Now().UTC().Format(http.TimeFormat) + "\r\n"
	for name, c := range map[string]struct {
		method, text, body string
		right              bool
	}{
		"length":                {"GET", ok + date + "Content-Length: 2\r\n\r\nab", "ab", true},
		"chunks":                {"GET", ok + date + "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\nX-T: 1\r\n\r\n", "ab", true},
		"no reason":             {"GET", "HTTP/1.1 200 \r\n" + date + "Content-Length: 0\r\n\r\n", "", true},
		"HEAD":                  {"HEAD", ok + date + "Content-Length: 2\r\n\r\n", "", true},
		"304":                   {"GET", "HTTP/1.1 304 Not Modified\r\n" + date + "Content-Length: 2\r\n\r\n", "", true},
		"other version":         {"GET", "HTTP/1.0 200 OK\r\n" + date + "Content-Length: 0\r\n\r\n", "", false},
		"no space":              {"GET", "HTTP/1.1 200\r\n" + date + "Content-Length: 0\r\n\r\n", "", false},
		"interim":               {"GET", "HTTP/1.1 100 Continue\r\n" + date + "\r\n", "", false},
		"bare LF":               {"GET", ok + date + "Content-Length: 0\n\r\n", "", false},
		"bare CR":               {"GET", ok + date + "X: a\rb\r\nContent-Length: 0\r\n\r\n", "", false},
		"NUL":                   {"GET", ok + date + "X: a\x00b\r\nContent-Length: 0\r\n\r\n", "", false},
		"folded":                {"GET", ok + date + "X: a\r\n b\r\nContent-Length: 0\r\n\r\n", "", false},
		"space before colon":    {"GET", ok + date + "Content-Length : 0\r\n\r\n", "", false},
		"no colon":              {"GET", ok + date + "X\r\nContent-Length: 0\r\n\r\n", "", false},
		"field twice":           {"GET", ok + date + date + "Content-Length: 0\r\n\r\n", "", false},
		"no date":               {"GET", ok + "Content-Length: 0\r\n\r\n", "", false},
		"length and chunks":     {"GET", ok + date + "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "", false},
		"signed length":         {"GET", ok + date + "Content-Length: +0\r\n\r\n", "", false},
		"neither":               {"GET", ok + date + "\r\n", "", false},
		"too short":             {"GET", ok + date + "Content-Length: 2\r\n\r\na", "", false},
		"chunk without CRLF":    {"GET", ok + date + "Transfer-Encoding: chunked\r\n\r\n1\r\naa\r\n0\r\n\r\n", "", false},
		"chunk without size":    {"GET", ok + date + "Transfer-Encoding: chunked\r\n\r\n\r\n", "", false},
		"trailer without end":   {"GET", ok + date + "Transfer-Encoding: chunked\r\n\r\n0\r\nX-T: 1\r\n", "", false},
		"chunks behind a 304":   {"GET", "HTTP/1.1 304 Not Modified\r\n" + date + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "", false},
		"another transfer code": {"GET", ok + date + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "", false},
	} {
		br := bufio.NewReader(strings.NewReader(c.text))
		a, err := readStrict(br, c.method)
		switch {
		case (err == nil) != c.right:
			t.Errorf("%s: %v", name, err)
		case c.right && (string(a.body) != c.body || br.Buffered() > 0):
			t.Errorf("%s: body %q, %d bytes left", name, a.body, br.Buffered())
		}
	}
}
