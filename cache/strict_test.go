package cache_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/swrproxy/swrproxy/cache"
)

// answer is one response as a strict client reads it: RFC 9110, RFC 9112.
type answer struct {
	status  int
	header  http.Header
	body    string
	trailer http.Header
}

// errMalformed is wrapped by the errors of parseAnswer and answer.check.
var errMalformed = errors.New("malformed answer")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errMalformed, fmt.Sprintf(format, args...))
}

// parseAnswer reads the head of an answer and the body behind it, with no tolerance: RFC 9112 §4, §5.
func parseAnswer(method string, head, body []byte) (a answer, err error) {
	first, rest, ok := bytes.Cut(head, []byte("\r\n"))
	if !ok {
		return a, malformed("no end of the status line in %q", head)
	}
	if a.status, err = parseStatusLine(string(first)); err != nil {
		return a, err
	}
	if a.header, err = parseFields(string(rest)); err != nil {
		return a, err
	}
	a.body = string(body)
	return a, a.check(method)
}

func parseStatusLine(line string) (status int, err error) {
	version, rest, _ := strings.Cut(line, " ")
	code, reason, ok := strings.Cut(rest, " ")
	status, err = strconv.Atoi(code)
	switch {
	case version != "HTTP/1.1", !ok, len(code) != 3, err != nil, status < 100:
		return 0, malformed("status line %q", line)
	case reason != http.StatusText(status):
		return 0, malformed("reason %q of status %d", reason, status)
	}
	return status, nil
}

// parseFields reads field lines up to the empty line, which must be the end: RFC 9112 §5.
func parseFields(block string) (http.Header, error) {
	h := make(http.Header)
	for {
		line, rest, ok := strings.Cut(block, "\r\n")
		switch {
		case !ok:
			return nil, malformed("field line %q does not end", line)
		case line == "" && rest != "":
			return nil, malformed("%q behind the head", rest)
		case line == "":
			return h, nil
		}
		name, value, ok := strings.Cut(line, ": ")
		if !ok {
			return nil, malformed("field line %q", line)
		}
		h[name] = append(h[name], value)
		block = rest
	}
}

// singles are fields of which an answer has one line at most.
var singles = []string{
	"Age", "Content-Length", "Content-Location", "Content-Range", "Content-Type", "Date", "Etag", "Expires", "Last-Modified", "Location",
}

// check says what is wrong with an answer to a request with this method.
func (a *answer) check(method string) error {
	if err := checkFields(a.header); err != nil {
		return err
	}
	if err := checkFields(a.trailer); err != nil {
		return err
	}
	for _, name := range singles {
		if n := len(a.header[name]); n > 1 {
			return malformed("%d lines of %s", n, name)
		}
	}
	for _, name := range []string{"Age", "Content-Length"} {
		if lines := a.header[name]; len(lines) == 1 && !isDigits(lines[0]) {
			return malformed("%s: %q", name, lines[0])
		}
	}
	for _, name := range []string{"Date", "Expires", "Last-Modified"} {
		if lines := a.header[name]; len(lines) == 1 && lines[0] != "0" {
			if _, err := time.Parse(http.TimeFormat, lines[0]); err != nil {
				return malformed("%s: %q", name, lines[0])
			}
		}
	}
	return a.checkLength(method)
}

func checkFields(h http.Header) error {
	for name, lines := range h {
		if !isToken(name) || name != textproto.CanonicalMIMEHeaderKey(name) {
			return malformed("field name %q", name)
		}
		for _, v := range lines {
			if strings.TrimSpace(v) != v || strings.ContainsFunc(v, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				return malformed("%s: %q", name, v)
			}
		}
	}
	return nil
}

// checkLength compares the body with what the head says of it: RFC 9110 §8.6, §14.4, RFC 9112 §6.
func (a *answer) checkLength(method string) error {
	length, bare := a.header.Get("Content-Length"), method == http.MethodHead || a.status == http.StatusNotModified || a.status == http.StatusNoContent
	switch {
	case bare && a.body != "":
		return malformed("%d bytes of body in an answer of status %d to %s", len(a.body), a.status, method)
	case !bare && length != "" && length != strconv.Itoa(len(a.body)):
		return malformed("Content-Length %s before %d bytes", length, len(a.body))
	case len(a.trailer) > 0 && length != "":
		return malformed("a trailer behind a body with Content-Length")
	}
	if unit := a.header.Get("Content-Range"); unit != "" && a.status == http.StatusPartialContent && !bare {
		var first, last, size int
		if n, err := fmt.Sscanf(unit, "bytes %d-%d/%d", &first, &last, &size); n != 3 || err != nil || last-first+1 != len(a.body) || last >= size {
			return malformed("Content-Range %q of %d bytes", unit, len(a.body))
		}
	}
	return nil
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"(),/:;<=>?@[\\]{}", r)
	})
}

// answerOf is the answer that a handler gave to a recorder, whole and as strict as one from the wire.
func answerOf(method string, w *httptest.ResponseRecorder) (answer, error) {
	res := w.Result()
	a := answer{status: res.StatusCode, header: res.Header.Clone(), body: w.Body.String(), trailer: res.Trailer}
	if names := splitLists(a.header["Trailer"]); len(names) > 0 {
		delete(a.header, "Trailer")
		for name := range a.trailer {
			if !slices.Contains(names, name) {
				return a, malformed("trailer field %s was not announced by %q", name, names)
			}
		}
	}
	return a, a.check(method)
}

// splitLists are the members of list fields without quoted strings.
func splitLists(lines []string) (members []string) {
	for _, line := range lines {
		for m := range strings.SplitSeq(line, ",") {
			members = append(members, strings.TrimSpace(m))
		}
	}
	return members
}

// fastGet asks c's hit path for a path of example.org, as a server does; ok is false where that leaves the request to the ordinary path.
func fastGet(t *testing.T, c *cache.Cache, method, path string, fields ...string) (a answer, ok bool) {
	t.Helper()
	a, ok, err := fastRead(c, method, path, fields...)
	if err != nil {
		t.Errorf("%s %s on the hit path: %v", method, path, err)
	}
	return a, ok
}

func fastRead(c *cache.Cache, method, path string, fields ...string) (a answer, ok bool, err error) {
	q := cache.HitRequest{Method: method, Target: []byte(path), Host: []byte("example.org"), At: time.Now()}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		q.Fields = append(q.Fields, cache.HitField{Name: []byte(name), Value: []byte(value)})
	}
	var out cache.HitAnswer
	if !c.Hit(&q, &out) {
		return a, false, nil
	}
	a, err = parseAnswer(method, out.Head, out.Body)
	c.HitSent(&out, int64(len(out.Body)), true)
	return a, true, err
}

// TestStrictParser: the parser finds what is wrong.
func TestStrictParser(t *testing.T) {
	for name, c := range map[string]struct {
		head, body string
		good       bool
	}{
		"good":            {"HTTP/1.1 200 OK\r\nAge: 0\r\nContent-Length: 1\r\nEtag: \"a\"\r\n\r\n", "x", true},
		"no empty line":   {"HTTP/1.1 200 OK\r\nAge: 0\r\n", "", false},
		"glued lines":     {"HTTP/1.1 200 OK\r\nAge: 0\r\nConteAge: 0\r\n-Length: 1\r\n\r\n", "x", false},
		"cut line":        {"HTTP/1.1 200 OK\r\nAge: 0\r\nnt-type text\r\n\r\n", "", false},
		"twice":           {"HTTP/1.1 200 OK\r\nAge: 0\r\nAge: 0\r\n\r\n", "", false},
		"too short":       {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "x", false},
		"body in a 304":   {"HTTP/1.1 304 Not Modified\r\n\r\n", "x", false},
		"bare line feed":  {"HTTP/1.1 200 OK\nAge: 0\r\n\r\n", "", false},
		"something after": {"HTTP/1.1 200 OK\r\n\r\nAge: 0\r\n\r\n", "", false},
		"half a value":    {"HTTP/1.1 200 OK\r\nAge: 0Cache-Status: x\r\n\r\n", "", false},
	} {
		if _, err := parseAnswer(http.MethodGet, []byte(c.head), []byte(c.body)); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}
