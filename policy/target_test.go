package policy

import (
	"bufio"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// received parses a request head as a server would, so that tests see net/http's own idea of URL, Host and
// RequestURI.
func received(t testing.TB, head string) *http.Request {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(strings.ReplaceAll(head, "\n", "\r\n") + "\r\n\r\n")))
	if err != nil {
		t.Fatalf("ReadRequest(%q): %v", head, err)
	}
	return r
}

func TestNewTarget(t *testing.T) {
	for name, tt := range map[string]struct {
		head, scheme string
		want         Target
	}{
		"plain": {
			"GET /a/b?x=1&y HTTP/1.1\nHost: example.org", "http",
			Target{"GET", "http", "example.org", "/a/b", "x=1&y"},
		},
		"RFC 9110 §4.2.3 case and default port": {
			"GET / HTTP/1.1\nHost: EXAMPLE.org:80", "http",
			Target{"GET", "http", "example.org", "/", ""},
		},
		"RFC 9110 §4.2.3 default port of the other scheme stays": {
			"GET / HTTP/1.1\nHost: example.org:80", "https",
			Target{"GET", "https", "example.org:80", "/", ""},
		},
		"empty port": {
			"GET / HTTP/1.1\nHost: example.org:", "http",
			Target{"GET", "http", "example.org", "/", ""},
		},
		"port with leading zeros": {
			"GET / HTTP/1.1\nHost: Example.org:008080", "http",
			Target{"GET", "http", "example.org:8080", "/", ""},
		},
		"IPv6 literal": {
			"GET / HTTP/1.1\nHost: [2001:DB8::1]:443", "https",
			Target{"GET", "https", "[2001:db8::1]", "/", ""},
		},
		"RFC 9112 §3.3 absolute form wins over Host": {
			"GET http://B.example/p HTTP/1.1\nHost: a.example", "http",
			Target{"GET", "http", "b.example", "/p", ""},
		},
		"RFC 9112 §3.2.4 asterisk form": {
			"OPTIONS * HTTP/1.1\nHost: a.example", "http",
			Target{"OPTIONS", "http", "a.example", "*", ""},
		},
		"RFC 3986 §6.2.2.1 digits in upper case": {
			"GET /a%2fb%c3%a4 HTTP/1.1\nHost: a", "http",
			Target{"GET", "http", "a", "/a%2Fb%C3%A4", ""},
		},
		"RFC 3986 §6.2.2.2 unreserved decoded": {
			"GET /%70riv%61te/%7Eme HTTP/1.1\nHost: a", "http",
			Target{"GET", "http", "a", "/private/~me", ""},
		},
		"RFC 3986 §6.2.2.3 dot segments": {
			"GET /x/../private/./y/.. HTTP/1.1\nHost: a", "http",
			Target{"GET", "http", "a", "/private/", ""},
		},
		"dot segments above the root": {
			"GET /../../etc HTTP/1.1\nHost: a", "http",
			Target{"GET", "http", "a", "/etc", ""},
		},
		"encoded dot segments": {
			"GET /x/%2e%2E/private HTTP/1.1\nHost: a", "http",
			Target{"GET", "http", "a", "/private", ""},
		},
		"dot and encoded dot in one segment": {
			"GET /x/.%2e/private HTTP/1.1\nHost: a", "http",
			Target{"GET", "http", "a", "/private", ""},
		},
		"encoded slash is no slash": {
			"GET /x/..%2fprivate HTTP/1.1\nHost: a", "http",
			Target{"GET", "http", "a", "/x/..%2Fprivate", ""},
		},
		"parameter of a dot segment is a segment": {
			"GET /..;/private HTTP/1.1\nHost: a", "http",
			Target{"GET", "http", "a", "/..;/private", ""},
		},
		"empty segments stay": {
			"GET //private//x HTTP/1.1\nHost: a", "http",
			Target{"GET", "http", "a", "//private//x", ""},
		},
		"double encoding is not undone": {
			"GET /%252e HTTP/1.1\nHost: a", "http",
			Target{"GET", "http", "a", "/%252e", ""},
		},
		"backslash is encoded": {
			`GET /private\x HTTP/1.1` + "\nHost: a", "http",
			Target{"GET", "http", "a", "/private%5Cx", ""},
		},
		"octets that have no place in a path are encoded": {
			"GET /a|b\xff[c] HTTP/1.1\nHost: a", "http",
			Target{"GET", "http", "a", "/a%7Cb%FF%5Bc%5D", ""},
		},
		"encoded delimiters stay encoded": {
			"GET /a%3Fb%23c%3B HTTP/1.1\nHost: a", "http",
			Target{"GET", "http", "a", "/a%3Fb%23c%3B", ""},
		},
		"raw and encoded delimiters differ": {
			"GET /a;b HTTP/1.1\nHost: a", "http",
			Target{"GET", "http", "a", "/a;b", ""},
		},
		"query is left alone": {
			"GET /?b=%7e&a=/../ HTTP/1.1\nHost: a", "http",
			Target{"GET", "http", "a", "/", "b=%7e&a=/../"},
		},
		"HTTP/1.0 without Host": {
			"GET / HTTP/1.0", "http",
			Target{"GET", "http", "", "/", ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := NewTarget(received(t, tt.head), tt.scheme)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("target (-want +got):\n%s", diff)
			}
			u := got.URL()
			if u.EscapedPath() != got.Path || u.RawQuery != got.RawQuery || u.Host != got.Authority {
				t.Errorf("URL() = %s, which is not %+v", u, got)
			}
			again := httptest.NewRequest("GET", "http://x/", nil)
			again.Method, again.URL, again.Host, again.RequestURI = got.Method, u, got.Authority, ""
			if twice, err := NewTarget(again, tt.scheme); err != nil || twice != got {
				t.Errorf("normal form of the normal form = %+v, %v", twice, err)
			}
		})
	}
}

func TestNewTargetRefuses(t *testing.T) {
	for name, tt := range map[string]struct{ head, part string }{
		"fragment":                 {"GET /a#b HTTP/1.1\nHost: a", "path"},
		"user information":         {"GET / HTTP/1.1\nHost: u@a", "authority"},
		"percent in host":          {"GET / HTTP/1.1\nHost: %61", "authority"},
		"space in host":            {"GET / HTTP/1.1\nHost: a b", "authority"},
		"slash in host":            {"GET / HTTP/1.1\nHost: a/b", "authority"},
		"port too large":           {"GET / HTTP/1.1\nHost: a:65536", "authority"},
		"port 0":                   {"GET / HTTP/1.1\nHost: a:0", "authority"},
		"port of many digits":      {"GET / HTTP/1.1\nHost: a:111111", "authority"},
		"two ports":                {"GET / HTTP/1.1\nHost: a:1:2", "authority"},
		"unclosed bracket":         {"GET / HTTP/1.1\nHost: [::1", "authority"},
		"asterisk without OPTIONS": {"GET * HTTP/1.1\nHost: a", "path"},
		"tunnel":                   {"CONNECT a:443 HTTP/1.1\nHost: a", "method"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := NewTarget(received(t, tt.head), "http")
			if bad, ok := errors.AsType[*BadTarget](err); !ok || bad.Part != tt.part {
				t.Errorf("NewTarget = %+v, %v; want a bad %s", got, err, tt.part)
			}
		})
	}
}

// A request that did not come from net/http's parser has a URL and no request line.
func TestNewTargetRefusesMalformedEscapes(t *testing.T) {
	for _, path := range []string{"/%", "/%4", "/%zz", "/a%2", "x", "/a b", "/\x00", "/\x7f"} {
		if got, err := newTarget("GET", "http", "a", path, "", ""); err == nil {
			t.Errorf("path %q became %+v", path, got)
		}
	}
	if got, err := newTarget("GET", "http", "a", "/", "a b", ""); err == nil {
		t.Errorf("query with a space became %+v", got)
	}
}

func TestNewTargetDoesNotAllocate(t *testing.T) {
	for _, head := range []string{
		"GET /a/b.css?x=1 HTTP/1.1\nHost: example.org",
		"GET /a%2Fb%20c HTTP/1.1\nHost: example.org:8080",
		"GET /a%20b%C3%A4 HTTP/1.1\nHost: example.org",
	} {
		r := received(t, head)
		if n := testing.AllocsPerRun(100, func() {
			if _, err := NewTarget(r, "http"); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%q: %v allocations", head, n)
		}
	}
}

// TestAbsoluteFormThatIsRefused: RFC 9112 §3.2.2, RFC 9110 §4.2.1 and §4.2.4.
func TestAbsoluteFormThatIsRefused(t *testing.T) {
	for target, part := range map[string]string{
		"http://h/a":     "",
		"HTTP://h/a":     "",
		"https://h/a":    "scheme",
		"ftp://h/a":      "scheme",
		"http:///a":      "authority",
		"http://u:p@h/a": "authority",
	} {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + target + " HTTP/1.1\r\nHost: other\r\n\r\n")))
		if err != nil {
			t.Fatalf("%s: %v", target, err)
		}
		_, err = NewTarget(r, "http")
		var bad *BadTarget
		if errors.As(err, &bad) != (part != "") || bad != nil && bad.Part != part {
			t.Errorf("%s: %v, want trouble with %q", target, err, part)
		}
	}
}
