package server

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
)

const host = "Host: example.org\r\n"

// Statuses for whole exchanges: what RFC 9112 makes ambiguous or malformed never reaches a handler.
func TestFramingRefusals(t *testing.T) {
	reached := make(chan string, 100)
	s := start(t, Options{MaxHeaderBytes: 2 << 10}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached <- r.RequestURI
		echo(w, r)
	}))
	for name, tc := range map[string]struct {
		request string
		status  string
	}{
		"§6.3 length and chunked":         {"POST / HTTP/1.1\r\n" + host + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
		"§6.3 chunked and length":         {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n", "400"},
		"§6.3 lengths differ":             {"POST / HTTP/1.1\r\n" + host + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", "400"},
		"§6.3 lengths repeated":           {"POST / HTTP/1.1\r\n" + host + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", "400"},
		"RFC 9110 §8.6 list":              {"POST / HTTP/1.1\r\n" + host + "Content-Length: 3, 3\r\n\r\nabc", "400"},
		"RFC 9110 §8.6 sign":              {"POST / HTTP/1.1\r\n" + host + "Content-Length: +3\r\n\r\nabc", "400"},
		"RFC 9110 §8.6 empty":             {"POST / HTTP/1.1\r\n" + host + "Content-Length:\r\n\r\n", "400"},
		"RFC 9110 §8.6 overflow":          {"POST / HTTP/1.1\r\n" + host + "Content-Length: 92233720368547758070\r\n\r\n", "400"},
		"§6.1 chunked in 1.0":             {"POST / HTTP/1.0\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
		"§6.1 other coding":               {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "501"},
		"§6.1 coding twice":               {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "501"},
		"§6.1 hidden coding":              {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", "400"},
		"§5.1 space before colon":         {"GET / HTTP/1.1\r\n" + host + "Content-Length : 3\r\n\r\nabc", "400"},
		"§5.2 folded line":                {"GET / HTTP/1.1\r\n" + host + "X: a\r\n b\r\n\r\n", "400"},
		"§5.2 folded first line":          {"GET / HTTP/1.1\r\n X: a\r\n" + host + "\r\n", "400"},
		"§2.2 bare CR in value":           {"GET / HTTP/1.1\r\n" + host + "X: a\rb\r\n\r\n", "400"},
		"§2.2 bare CR ends line":          {"GET / HTTP/1.1\r" + host + "\r\n", "400"},
		"RFC 9110 §5.5 NUL":               {"GET / HTTP/1.1\r\n" + host + "X: a\x00b\r\n\r\n", "400"},
		"RFC 9110 §5.1 name":              {"GET / HTTP/1.1\r\n" + host + "X(: a\r\n\r\n", "400"},
		"RFC 9110 §5.1 no name":           {"GET / HTTP/1.1\r\n" + host + ": a\r\n\r\n", "400"},
		"RFC 9110 §5.1 no colon":          {"GET / HTTP/1.1\r\n" + host + "X\r\n\r\n", "400"},
		"§3 two spaces":                   {"GET  / HTTP/1.1\r\n" + host + "\r\n", "400"},
		"§3 tab":                          {"GET\t/ HTTP/1.1\r\n" + host + "\r\n", "400"},
		"§3 space in target":              {"GET /a b HTTP/1.1\r\n" + host + "\r\n", "400"},
		"§3 no version":                   {"GET /\r\n" + host + "\r\n", "400"},
		"§3 lower-case version":           {"GET / http/1.1\r\n" + host + "\r\n", "400"},
		"§3.2 no Host":                    {"GET / HTTP/1.1\r\n\r\n", "400"},
		"§3.2 two Hosts":                  {"GET / HTTP/1.1\r\n" + host + host + "\r\n", "400"},
		"§3.2 Host list":                  {"GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", "400"},
		"§3.2 Host with path":             {"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", "400"},
		"§3.2 Host with user":             {"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", "400"},
		"§3.2 empty Host":                 {"GET / HTTP/1.1\r\nHost:\r\n\r\n", "400"},
		"§2.5 version 2 in 1.1's clothes": {"GET / HTTP/2.0\r\n" + host + "\r\n", "505"},
		"no HTTP":                         {"\x16\x03\x01\x02\x00\x01\x00", "400"},
		"long method":                     {strings.Repeat("A", 70) + " / HTTP/1.1\r\n", "400"},
		"head above the limit":            {"GET / HTTP/1.1\r\n" + host + "X: " + strings.Repeat("a", 2<<10) + "\r\n\r\n", "431"},
		"request line above the limit":    {"GET /" + strings.Repeat("a", 4<<10), "431"},
	} {
		t.Run(name, func(t *testing.T) {
			got := exchange(t, s, tc.request)
			if !strings.HasPrefix(got, "HTTP/1.1 "+tc.status+" ") {
				t.Fatalf("answer %.80q, want status %s", got, tc.status)
			}
			if !strings.Contains(got, "Connection: close\r\n") {
				t.Errorf("answer does not say close: %q", got)
			}
		})
	}
	if len(reached) > 0 {
		t.Errorf("a handler saw %s", <-reached)
	}
}

// RFC 9112 §7.1: a broken chunked body never ends cleanly for the handler, which can still answer: its client is not gone.
func TestChunkedRefusals(t *testing.T) {
	s := start(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		echo(w, r)
		if err := r.Context().Err(); (err != nil) != (r.RequestURI == "/cut_short") {
			t.Errorf("%s: context %v", r.RequestURI, err)
		}
	}))
	for name, body := range map[string]string{
		"bare LF after size":    "3\nabc\r\n0\r\n\r\n",
		"bare LF after data":    "3\r\nabc\n0\r\n\r\n",
		"space before size":     " 3\r\nabc\r\n0\r\n\r\n",
		"space after size":      "3 \r\nabc\r\n0\r\n\r\n",
		"hex prefix":            "0x3\r\nabc\r\n0\r\n\r\n",
		"sign":                  "+3\r\nabc\r\n0\r\n\r\n",
		"no size":               "\r\nabc\r\n0\r\n\r\n",
		"extension alone":       ";a\r\n\r\n",
		"size overflow":         "10000000000000003\r\nabc\r\n0\r\n\r\n",
		"CR in extension":       "3;a\rb\r\nabc\r\n0\r\n\r\n",
		"data longer than size": "3\r\nabcd\r\n0\r\n\r\n",
		"folded trailer":        "0\r\nA: b\r\n c\r\n\r\n",
		"bad trailer name":      "0\r\nA b: c\r\n\r\n",
		"bare LF end":           "0\r\n\n",
		"endless extension":     "3;" + strings.Repeat("a", 5000) + "\r\nabc\r\n0\r\n\r\n",
		"cut short":             "3\r\nab",
	} {
		t.Run(name, func(t *testing.T) {
			target := "/" + strings.ReplaceAll(name, " ", "_")
			got := exchange(t, s, "POST "+target+" HTTP/1.1\r\n"+host+"Transfer-Encoding: chunked\r\n\r\n"+body)
			if !strings.HasPrefix(got, "HTTP/1.1 400 ") || !strings.Contains(got, "Connection: close\r\n") {
				t.Errorf("answer %q", got)
			}
		})
	}
}

func TestAcceptedForms(t *testing.T) {
	s := start(t, Options{}, http.HandlerFunc(echo))
	for name, tc := range map[string]struct{ request, want string }{
		"§2.2 bare LF":           {"GET /a HTTP/1.1\nHost: x\n\n", `GET /a ""`},
		"§2.2 empty line first":  {"\r\nGET /a HTTP/1.1\r\n" + host + "\r\n", `GET /a ""`},
		"1.0 without Host":       {"GET /a HTTP/1.0\r\n\r\n", `GET /a ""`},
		"absolute form":          {"GET http://example.org/a HTTP/1.1\r\n" + host + "\r\n", `GET http://example.org/a ""`},
		"length zero":            {"POST /a HTTP/1.1\r\n" + host + "Content-Length: 0\r\n\r\n", `POST /a ""`},
		"chunked with all parts": {"POST /a HTTP/1.1\r\n" + host + "transfer-encoding:  Chunked \r\n\r\n003;x=\"y\"\r\nabc\r\n2\r\nde\r\n0\r\nT: v\r\n\r\n", `POST /a "abcde"`},
		"IPv6 and port":          {"GET /a HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", `GET /a ""`},
		"own method":             {"M-SEARCH * HTTP/1.1\r\n" + host + "\r\n", `M-SEARCH * ""`},
	} {
		t.Run(name, func(t *testing.T) {
			_, body := answer(t, bufio.NewReader(strings.NewReader(exchange(t, s, tc.request))))
			if body != tc.want {
				t.Errorf("got %q, want %q", body, tc.want)
			}
		})
	}
}

// RFC 9112 §9.3.2: pipelined requests are answered in order, whatever bodies lie between them.
func TestPipelining(t *testing.T) {
	s := start(t, Options{}, http.HandlerFunc(echo))
	c := dial(t, s)
	send(t, c, "GET /1 HTTP/1.1\r\n"+host+"\r\n"+
		"POST /2 HTTP/1.1\r\n"+host+"Content-Length: 5\r\n\r\nhello"+
		"POST /3 HTTP/1.1\r\n"+host+"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"+
		"\r\nGET /4 HTTP/1.1\r\n"+host+"\r\n"+
		"GET /5 HTTP/1.1\r\n"+host+"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n")
	r := bufio.NewReader(c)
	for _, want := range []string{`GET /1 ""`, `POST /2 "hello"`, `POST /3 "abc"`, `GET /4 ""`} {
		if _, got := answer(t, r); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if resp, _ := answer(t, r); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("the fifth got %d, want 400", resp.StatusCode)
	}
}

func TestScanHeadTable(t *testing.T) {
	h, r := scanHead([]byte("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\n"))
	if want := (head{framing: framingLength, length: 12}); h != want || r != refusalNone {
		t.Errorf("got %+v, %v", h, r)
	}
	h, r = scanHead(preface)
	if h.framing != framingTunnel || r != refusalNone {
		t.Errorf("preface: got %+v, %v", h, r)
	}
}
