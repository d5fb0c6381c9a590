package origin

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// rawOrigin answers every connection's request with the same bytes and closes.
func rawOrigin(t *testing.T, answer string) *url.URL {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				_, _ = io.WriteString(c, answer)
			}
			c.Close()
		}
	}()
	return &url.URL{Scheme: "http", Host: ln.Addr().String()}
}

func exchangeWith(t *testing.T, answer string) (*http.Response, string, error) {
	t.Helper()
	pool, err := New(Config{Name: "raw", URLs: []*url.URL{rawOrigin(t, answer)}})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close(t.Context())
	resp, err := pool.RoundTrip(httptest.NewRequest("GET", "http://example.org/", nil))
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, string(body), err
}

// TestFieldsListedBesideClose: RFC 9110 §7.6.1. What Connection lists goes, also where the connection ends.
func TestFieldsListedBesideClose(t *testing.T) {
	for name, framing := range map[string]string{
		"length":      "Content-Length: 2\r\n\r\nab",
		"chunked":     "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
		"until close": "\r\nab",
	} {
		for _, connection := range []string{"Connection: close, X-Secret\r\n", "Connection: close\r\nConnection: x-secret\r\n", "Connection: X-Secret\r\n"} {
			t.Run(name+" "+connection, func(t *testing.T) {
				resp, body, err := exchangeWith(t, "HTTP/1.1 200 OK\r\n"+connection+"X-Secret: 1\r\nX-Kept: 1\r\n"+framing)
				if err != nil || body != "ab" {
					t.Fatalf("%q, %v", body, err)
				}
				if resp.Header.Get("X-Secret") != "" || resp.Header.Get("X-Kept") != "1" || resp.Header.Get("Connection") != "" {
					t.Errorf("header %v", resp.Header)
				}
			})
		}
	}
}

// TestPragmaIsNoCacheControl: RFC 9111 §5.4. Pragma says nothing in a response, whoever parses its head.
func TestPragmaIsNoCacheControl(t *testing.T) {
	for name, framing := range map[string]string{
		"length":  "Content-Length: 2\r\n\r\nab",
		"chunked": "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
	} {
		for control, want := range map[string]string{"": "", "Cache-Control: no-cache\r\n": "no-cache"} {
			t.Run(name+" "+control, func(t *testing.T) {
				resp, body, err := exchangeWith(t, "HTTP/1.1 200 OK\r\n"+control+"Pragma: no-cache\r\n"+framing)
				if err != nil || body != "ab" {
					t.Fatalf("%q, %v", body, err)
				}
				if got := resp.Header.Get("Cache-Control"); got != want || resp.Header.Get("Pragma") != "no-cache" {
					t.Errorf("Cache-Control %q, want %q; header %v", got, want, resp.Header)
				}
			})
		}
	}
}

// TestSpaceBehindNames: RFC 9112 §5.1. White space before the colon is removed, so that the field keeps its force.
func TestSpaceBehindNames(t *testing.T) {
	for name, framing := range map[string]string{
		"length":  "Content-Length: 2\r\n\r\nab",
		"chunked": "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			resp, body, err := exchangeWith(t, "HTTP/1.1 200 OK\r\nCache-Control : no-store\r\nset-cookie : a=b\r\n"+framing)
			if err != nil || body != "ab" {
				t.Fatalf("%q, %v", body, err)
			}
			if resp.Header.Get("Cache-Control") != "no-store" || resp.Header.Get("Set-Cookie") != "a=b" {
				t.Errorf("header %v", resp.Header)
			}
		})
	}
}

// TestUncertainResponsesAreRefused: what may end in two places, or says 1xx for ever.
func TestUncertainResponsesAreRefused(t *testing.T) {
	for name, answer := range map[string]string{
		"RFC 9112 §6.1 coding in HTTP/1.0":  "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"RFC 9112 §7 coding not undone":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhello",
		"RFC 9112 §7 one of two codings":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: foo, GZIP;q=1\r\n\r\nhello",
		"RFC 9112 §6.3 two lengths":         "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
		"RFC 9112 §6.3 length and coding":   "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
		"RFC 9110 §15.2 interim responses":  strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", maxInterim+1) + "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab",
		"RFC 9110 §5.5 control character":   "HTTP/1.1 200 OK\r\nX: a\x00b\r\nContent-Length: 2\r\n\r\nab",
		"RFC 9112 §5 line without a colon":  "HTTP/1.1 200 OK\r\nno colon\r\nContent-Length: 2\r\n\r\nab",
		"RFC 9110 §15 status below 100":     "HTTP/1.1 099 None\r\nContent-Length: 2\r\n\r\nab",
		"RFC 9110 §8.6 length below nought": "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nab",
	} {
		t.Run(name, func(t *testing.T) {
			_, body, err := exchangeWith(t, answer)
			if failure, ok := errors.AsType[*Error](err); !ok || failure.StatusCode() != http.StatusBadGateway {
				t.Errorf("got %q, %v", body, err)
			}
		})
	}
}
