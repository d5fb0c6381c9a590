package hopbyhop_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swrproxy/swrproxy/internal/hopbyhop"
)

func TestStrip(t *testing.T) {
	for name, tt := range map[string]struct{ in, want http.Header }{
		"HBH-01 response with everything": {
			in: http.Header{
				"Connection": {"close, X-Secret"}, "X-Secret": {"1"}, "Keep-Alive": {"timeout=5"}, "Proxy-Authenticate": {"Basic"},
				"Upgrade": {"h2c"}, "Trailer": {"X"}, "Transfer-Encoding": {"chunked"}, "Te": {"trailers"}, "Proxy-Connection": {"x"},
				"Proxy-Authorization": {"Basic eA=="}, "Proxy-Authentication-Info": {"x"}, "Http2-Settings": {"AAMAAABk"}, "Etag": {`"1"`},
			},
			want: http.Header{"Etag": {`"1"`}},
		},
		"RFC 9110 §7.6.1 all lines, the first empty, odd spacing and case": {
			in:   http.Header{"Connection": {"", " ,x-a ,,\tX-B", "X-C"}, "X-A": {"1"}, "X-B": {"2"}, "X-C": {"3"}, "X-D": {"4"}},
			want: http.Header{"X-D": {"4"}},
		},
		"HBH-05 end-to-end fields stay whoever names them": {
			in: http.Header{
				"Connection":    {"", "X-Forwarded-For, X-Real-IP, Authorization, Cache-Control, Cookie, Host, Content-Length, cdn-cache-control"},
				"Authorization": {"Bearer x"}, "Cache-Control": {"no-cache"}, "Cookie": {"a=b"}, "Host": {"h"}, "Content-Length": {"3"},
				"X-Forwarded-For": {"192.0.2.1"}, "X-Real-Ip": {"192.0.2.1"}, "Cdn-Cache-Control": {"no-store"},
			},
			want: http.Header{
				"Authorization": {"Bearer x"}, "Cache-Control": {"no-cache"}, "Cookie": {"a=b"}, "Host": {"h"}, "Content-Length": {"3"},
				"X-Forwarded-For": {"192.0.2.1"}, "X-Real-Ip": {"192.0.2.1"}, "Cdn-Cache-Control": {"no-store"},
			},
		},
		"a field named close or keep-alive is not one": {
			in:   http.Header{"Connection": {"keep-alive, close"}, "Close": {"1"}},
			want: http.Header{"Close": {"1"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			hopbyhop.Strip(tt.in)
			if d := cmp.Diff(tt.want, tt.in); d != "" {
				t.Errorf("first Strip (-want +got):\n%s", d)
			}
			hopbyhop.Strip(tt.in)
			if d := cmp.Diff(tt.want, tt.in); d != "" {
				t.Errorf("Strip is not idempotent (-want +got):\n%s", d)
			}
		})
	}
}

// TestIsAgreesWithStrip keeps the switch of Is and the list of Strip from drifting apart.
func TestIsAgreesWithStrip(t *testing.T) {
	for _, name := range []string{
		"Connection", "Http2-Settings", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authentication-Info", "Proxy-Authorization",
		"Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Etag", "X-Connection", "Content-Type", "",
	} {
		h := http.Header{name: {"x"}}
		hopbyhop.Strip(h)
		if stripped := len(h) == 0; stripped != hopbyhop.Is(name) {
			t.Errorf("%q: stripped %v, Is %v", name, stripped, hopbyhop.Is(name))
		}
	}
}

func TestStripDoesNotAllocate(t *testing.T) {
	h := http.Header{"Connection": {"keep-alive"}, "Accept": {"*/*"}, "Etag": {`"1"`}}
	line := h["Connection"]
	if n := testing.AllocsPerRun(100, func() {
		h["Connection"] = line
		hopbyhop.Strip(h)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func TestUpgradeType(t *testing.T) {
	for name, tt := range map[string]struct {
		h    http.Header
		want string
	}{
		"RFC 9110 §7.8 websocket":      {http.Header{"Connection": {"keep-alive, Upgrade"}, "Upgrade": {"WebSocket"}}, "websocket"},
		"second Connection line":       {http.Header{"Connection": {"", "upgrade"}, "Upgrade": {"h2c"}}, "h2c"},
		"not named in Connection":      {http.Header{"Connection": {"close"}, "Upgrade": {"websocket"}}, ""},
		"no Upgrade field":             {http.Header{"Connection": {"upgrade"}}, ""},
		"a list equals no protocol":    {http.Header{"Connection": {"upgrade"}, "Upgrade": {"websocket", "h2c"}}, "websocket, h2c"},
		"part of a word is not enough": {http.Header{"Connection": {"upgrade-insecure"}, "Upgrade": {"websocket"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := hopbyhop.UpgradeType(tt.h); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestAcceptsTrailers(t *testing.T) {
	for te, want := range map[string]bool{"trailers": true, "deflate, Trailers": true, "deflate": false, "": false, "trailers;q=0": false} {
		if got := hopbyhop.AcceptsTrailers(http.Header{"Te": {te}}); got != want {
			t.Errorf("TE: %s: got %v", te, got)
		}
	}
}
