package cache_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestAnswerBeforeTheUploadIsOver: a client that pauses in the middle of its upload gets the origin's answer, or failure, while it does.
func TestAnswerBeforeTheUploadIsOver(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(int, *http.Request) (*http.Response, error)
		status int
		body   string
	}{
		"refused": {func(int, *http.Request) (*http.Response, error) { return response(413, "too large"), nil }, 413, "too large"},
		"empty":   {func(int, *http.Request) (*http.Response, error) { return response(204, ""), nil }, 204, ""},
		"failed":  {func(int, *http.Request) (*http.Response, error) { return nil, errors.New("down") }, 502, "502 Bad Gateway\n"},
	} {
		for framing, sent := range map[string]string{
			"length":  "Content-Length: 100000\r\n\r\nabc",
			"chunked": "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
		} {
			t.Run(name+", "+framing, func(t *testing.T) {
				r := newRig(t, nil)
				defer r.close()
				r.origin.set(c.answer)
				s := httptest.NewServer(r.h)
				defer s.Close()
				client, err := net.Dial("tcp", s.Listener.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close()
				_ = client.SetDeadline(time.Now().Add(10 * time.Second)) // only passes when the test fails
				if _, err := io.WriteString(client, "POST /a HTTP/1.1\r\nHost: example.org\r\n"+sent); err != nil {
					t.Fatal(err)
				}
				resp, err := http.ReadResponse(bufio.NewReader(client), nil)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				if resp.StatusCode != c.status || string(body) != c.body || err != nil {
					t.Errorf("%s %q, %v", resp.Status, body, err)
				}
			})
		}
	}
}
