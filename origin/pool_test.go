package origin

import (
	"bufio"
	stdcmp "cmp"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// newPool makes a pool of the URLs. Its Close at the end of the test fails the test if an exchange is still open.
func newPool(t testing.TB, cfg Config, urls ...string) *Pool {
	t.Helper()
	for _, raw := range urls {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		cfg.URLs = append(cfg.URLs, u)
	}
	if cfg.plain == plainByDefault {
		cfg.plain = clientUnderTest
	}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			t.Errorf("an exchange was left open: %v", err)
		}
	})
	return p
}

// newOrigin serves h on loopback until the test ends.
func newOrigin(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// inbound makes a request as a server would have got it from 192.0.2.7.
func inbound(method, target string, body io.Reader) *http.Request {
	r := httptest.NewRequest(method, target, body)
	r.RemoteAddr = "192.0.2.7:4711"
	r.Host = "example.com"
	return r
}

// fetch makes one exchange and reads it whole.
func fetch(t *testing.T, p *Pool, r *http.Request) (*http.Response, string) {
	t.Helper()
	resp, err := roundTrip(p, r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// sentHeader returns what the origin got for r.
func sentHeader(t *testing.T, cfg Config, r *http.Request) (http.Header, string) {
	t.Helper()
	var got http.Header
	var host string
	s := newOrigin(t, func(_ http.ResponseWriter, r *http.Request) { got, host = r.Header, r.Host })
	fetch(t, newPool(t, cfg, s.URL), r)
	return got, host
}

func TestRequestHeader(t *testing.T) {
	trusting := Config{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
	own := http.Header{
		"Via": {"1.1 swrproxy"}, "X-Forwarded-For": {"192.0.2.7"}, "X-Real-Ip": {"192.0.2.7"}, "X-Forwarded-Proto": {"http"},
		"X-Forwarded-Host": {"example.com"}, "Forwarded": {`for=192.0.2.7;host="example.com";proto=http`},
	}
	with := func(extra http.Header) http.Header {
		h := own.Clone()
		for k, v := range extra {
			h[k] = v
		}
		return h
	}
	for name, tt := range map[string]struct {
		cfg      Config
		in, want http.Header
	}{
		"nothing is added but our own": {want: own},
		"end-to-end fields pass": {
			in:   http.Header{"Cookie": {"a=b"}, "X-A": {"1", "2"}, "User-Agent": {"t"}, "Accept-Encoding": {"br"}},
			want: with(http.Header{"Cookie": {"a=b"}, "X-A": {"1", "2"}, "User-Agent": {"t"}, "Accept-Encoding": {"br"}}),
		},
		"RFC 9110 §7.6.1 connection-specific fields go": {
			in:   http.Header{"Connection": {"close, X-Hop"}, "X-Hop": {"1"}, "Keep-Alive": {"1"}, "Proxy-Authorization": {"x"}, "Te": {"gzip"}, "Upgrade": {"x"}},
			want: own,
		},
		"RFC 9110 §10.1.4 TE: trailers stays": {
			in:   http.Header{"Te": {"gzip, trailers"}},
			want: with(http.Header{"Te": {"trailers"}, "Connection": {"TE"}}),
		},
		"HBH-05 Connection removes none of ours": {
			in:   http.Header{"Connection": {"", "X-Forwarded-For, X-Real-IP, Via, Forwarded, Authorization, Cache-Control"}, "Authorization": {"x"}, "Cache-Control": {"no-cache"}},
			want: with(http.Header{"Authorization": {"x"}, "Cache-Control": {"no-cache"}}),
		},
		"HBH-06 h2c is not upgraded": {
			in:   http.Header{"Connection": {"Upgrade, HTTP2-Settings"}, "Upgrade": {"h2c"}, "Http2-Settings": {"AAMAAABk"}},
			want: own,
		},
		"KEY-01 forwarding fields of a stranger are replaced": {
			in: http.Header{
				"X-Forwarded-For": {"6.6.6.6"}, "X-Forwarded-Host": {"evil"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Port": {"1"},
				"X-Forwarded-Prefix": {"/x"}, "Forwarded": {"for=6.6.6.6"}, "X-Real-Ip": {"6.6.6.6"}, "X_forwarded_for": {"6.6.6.6"}, "X-Forwarded_Host": {"evil"},
			},
			want: own,
		},
		"KEY-01 override fields go": {
			in: http.Header{
				"X-Host": {"evil"}, "X-Forwarded-Scheme": {"x"}, "X-Original-Url": {"/x"}, "X-Rewrite-Url": {"/x"}, "X-Http-Method-Override": {"DELETE"},
				"X_original_url": {"/x"},
			},
			want: own,
		},
		"KEY-01 override fields go for trusted peers too": {
			cfg: trusting, in: http.Header{"X-Original-Url": {"/x"}, "X-Forwarded-Scheme": {"x"}}, want: own,
		},
		"override fields stay when asked for": {
			cfg: Config{KeepOverrideFields: true}, in: http.Header{"X-Original-Url": {"/x"}}, want: with(http.Header{"X-Original-Url": {"/x"}}),
		},
		"RFC 7239 a trusted proxy's fields are extended": {
			cfg: trusting,
			in: http.Header{
				"X-Forwarded-For": {"198.51.100.1", "198.51.100.2"}, "X-Forwarded-Host": {"outer"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Port": {"443"},
				"Forwarded": {"for=198.51.100.1;proto=https"}, "X-Real-Ip": {"198.51.100.1"},
			},
			want: with(http.Header{
				"X-Forwarded-For": {"198.51.100.1, 198.51.100.2, 192.0.2.7"}, "X-Forwarded-Host": {"outer"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Port": {"443"},
				"Forwarded": {`for=198.51.100.1;proto=https, for=192.0.2.7;host="example.com";proto=http`}, "X-Real-Ip": {"198.51.100.1"},
			}),
		},
		"RFC 9110 §7.6.3 Via is extended": {
			cfg: Config{Via: "edge"}, in: http.Header{"Via": {"1.0 a", "1.1 b"}}, want: with(http.Header{"Via": {"1.0 a, 1.1 b, 1.1 edge"}}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := inbound("GET", "/", nil)
			if tt.in != nil {
				r.Header = tt.in
			}
			before := r.Header.Clone()
			got, _ := sentHeader(t, tt.cfg, r)
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("origin got (-want +got):\n%s", d)
			}
			if d := cmp.Diff(before, r.Header); d != "" {
				t.Errorf("the caller's request was changed (-want +got):\n%s", d)
			}
		})
	}
}

func TestForwardedPeers(t *testing.T) {
	for remote, want := range map[string][2]string{
		"[2001:db8::1]:80":        {"2001:db8::1", `for="[2001:db8::1]";host="example.com";proto=http`},
		"[::ffff:192.0.2.1]:80":   {"192.0.2.1", `for=192.0.2.1;host="example.com";proto=http`},
		"[fe80::1%eth0]:80":       {"fe80::1", `for="[fe80::1]";host="example.com";proto=http`},
		"@":                       {"", `for=unknown;host="example.com";proto=http`},
		"":                        {"", `for=unknown;host="example.com";proto=http`},
		"192.0.2.1;for=evil:1234": {"", `for=unknown;host="example.com";proto=http`},
	} {
		t.Run(remote, func(t *testing.T) {
			r := inbound("GET", "/", nil)
			r.RemoteAddr = remote
			got, _ := sentHeader(t, Config{}, r)
			if got := [2]string{got.Get("X-Forwarded-For"), got.Get("Forwarded")}; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestHost(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg  Config
		host string
		want string // "" stands for the origin's address
	}{
		"preserved":                        {Config{}, "example.com:81", "example.com:81"},
		"fixed":                            {Config{Host: "app.internal"}, "example.com", "app.internal"},
		"the URL's":                        {Config{HostMode: HostOfURL}, "example.com", ""},
		"the URL's when there is no other": {Config{}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got string
			s := newOrigin(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Host })
			r := inbound("GET", "/", nil)
			r.Host = tt.host
			fetch(t, newPool(t, tt.cfg, s.URL), r)
			if want := stdcmp.Or(tt.want, strings.TrimPrefix(s.URL, "http://")); got != want {
				t.Errorf("Host: %s, want %s", got, want)
			}
		})
	}
}

func TestTargetBytes(t *testing.T) {
	for name, tt := range map[string]struct{ base, in, want string }{
		"as sent":                            {"", "/a%2Fb/%7Ex?q=%2F&&b;c", "/a%2Fb/%7Ex?q=%2F&&b;c"},
		"KEY-09 double slash and dots":       {"", "//a/../b/./c", "//a/../b/./c"},
		"an empty query keeps its mark":      {"", "/a?", "/a?"},
		"base path":                          {"/base/", "/a%2Fb?x", "/base/a%2Fb?x"},
		"escaped base path":                  {"/b%2Fase", "/a", "/b%2Fase/a"},
		"escaped base path and escaped path": {"/b%2Fase", "/a%2fb", "/b%2Fase/a%2fb"},
		"base path with a space":             {"/b%20c", "/a%20b", "/b%20c/a%20b"},
		"root":                               {"/base", "/", "/base/"},
	} {
		t.Run(name, func(t *testing.T) {
			var got string
			s := newOrigin(t, func(_ http.ResponseWriter, r *http.Request) { got = r.RequestURI })
			r := inbound("GET", tt.in, nil)
			fetch(t, newPool(t, Config{}, s.URL+tt.base), r)
			if got != tt.want {
				t.Errorf("origin got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestOptionsAsterisk(t *testing.T) {
	var got string
	s := httptest.NewUnstartedServer(nil)
	s.Config.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.RequestURI })
	s.Config.DisableGeneralOptionsHandler = true
	s.Start()
	t.Cleanup(s.Close)
	fetch(t, newPool(t, Config{}, s.URL+"/base"), inbound("OPTIONS", "*", nil))
	if got != "*" {
		t.Errorf("origin got %s", got)
	}
}

func TestResponseHeader(t *testing.T) {
	s := newOrigin(t, func(w http.ResponseWriter, _ *http.Request) {
		for k, v := range map[string]string{
			"Connection": "X-Secret", "X-Secret": "1", "Keep-Alive": "timeout=5", "Proxy-Authenticate": "Basic", "Upgrade": "h2c",
			"Etag": `"1"`, "Content-Encoding": "gzip",
		} {
			w.Header().Set(k, v)
		}
		io.WriteString(w, "not gzip, and nobody looks")
	})
	resp, body := fetch(t, newPool(t, Config{}, s.URL), inbound("GET", "/", nil))
	resp.Header.Del("Date")
	want := http.Header{"Etag": {`"1"`}, "Content-Encoding": {"gzip"}, "Content-Length": {"26"}, "Content-Type": {"text/plain; charset=utf-8"}}
	delete(want, "Content-Type") // net/http does not guess for an encoded body
	if d := cmp.Diff(want, resp.Header); d != "" {
		t.Errorf("HBH-01 (-want +got):\n%s", d)
	}
	if body != "not gzip, and nobody looks" {
		t.Errorf("body was changed: %q", body)
	}
}

func TestRedirectIsAnAnswer(t *testing.T) {
	s := newOrigin(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) })
	if resp, _ := fetch(t, newPool(t, Config{}, s.URL), inbound("GET", "/", nil)); resp.StatusCode != http.StatusFound {
		t.Errorf("status %d", resp.StatusCode)
	}
}

// classOf returns the class of an error that must be an *Error.
func classOf(t *testing.T, err error) Class {
	t.Helper()
	e, ok := err.(*Error)
	if !ok {
		t.Fatalf("error is a %T, not an *Error: %v", err, err)
	}
	return e.Class
}

func TestNewRefuses(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no url":              {},
		"two hosts":           {URLs: []*url.URL{{Scheme: "http", Host: "a"}}, Host: "a", HostMode: HostOfURL},
		"scheme":              {URLs: []*url.URL{{Scheme: "ftp", Host: "a"}}},
		"no host":             {URLs: []*url.URL{{Scheme: "http", Host: ":80"}}},
		"nil":                 {URLs: []*url.URL{nil}},
		"user":                {URLs: []*url.URL{{Scheme: "http", Host: "a", User: url.User("u")}}},
		"query":               {URLs: []*url.URL{{Scheme: "http", Host: "a", RawQuery: "q"}}},
		"relative path":       {URLs: []*url.URL{{Scheme: "http", Host: "a", Path: "x"}}},
		"via":                 {URLs: []*url.URL{{Scheme: "http", Host: "a"}}, Via: "a b"},
		"host with a line":    {URLs: []*url.URL{{Scheme: "http", Host: "a"}}, Host: "a\r\nX: y"},
		"missing ca file":     {URLs: []*url.URL{{Scheme: "https", Host: "a"}}, TLS: TLS{CAFile: "/nonexistent"}},
		"certificate, no key": {URLs: []*url.URL{{Scheme: "https", Host: "a"}}, TLS: TLS{CertFile: "/nonexistent"}},
	} {
		if p, err := New(cfg); err == nil {
			t.Errorf("%s: New gave %v and no error", name, p)
		}
	}
}

// TestExpectContinue: RFC 9110 §10.1.1, the body waits for the origin's word.
func TestExpectContinue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var read atomic.Bool
		script := func(c net.Conn) {
			br := bufio.NewReader(c)
			r, err := http.ReadRequest(br)
			if err != nil || read.Load() {
				t.Errorf("body was read before the origin asked for it, or %v", err)
				return
			}
			io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
			io.Copy(io.Discard, r.Body)
			io.WriteString(c, ok200)
			hang(c)
		}
		p := newPool(t, Config{Dial: only(script).dial}, onlyURL)
		r := inbound("POST", "/", io.MultiReader(atEOF(func() { read.Store(true) }), strings.NewReader("x")))
		r.Header.Set("Expect", "100-continue")
		if _, body := fetch(t, p, r); body != "ok" || !read.Load() {
			t.Errorf("body %q", body)
		}
	})
}

func TestHeaderAllocations(t *testing.T) {
	p := newPool(t, Config{}, onlyURL)
	r := inbound("GET", "/", nil)
	r.Header = http.Header{"Accept": {"*/*"}, "User-Agent": {"t"}, "Accept-Encoding": {"br"}, "Cookie": {"a=b"}}
	// Four for the map, one for our values, one for Forwarded.
	if n := testing.AllocsPerRun(100, func() { p.header(r, "") }); n > 6 {
		t.Errorf("%v allocations, want 6 at most", n)
	}
}

// FuzzURL: the bytes of path and query arrive as they came, behind the base path.
func FuzzURL(f *testing.F) {
	for _, seed := range []string{"/", "//a", "/a%2Fb", "/%7E?x=%", "/a?", "/[;]@", "/é", "*", "/a//../b?c#d"} {
		f.Add(seed, "/b%2Fc")
		f.Add(seed, "")
	}
	f.Fuzz(func(t *testing.T, in, base string) {
		got, err := url.ParseRequestURI(in)
		if err != nil || !strings.HasPrefix(got.Path, "/") || got.Opaque != "" {
			t.Skip()
		}
		u, err := url.Parse("http://192.0.2.1" + base)
		if err != nil || checkURL(u) != nil {
			t.Skip()
		}
		target, err := newTarget(u, &Config{})
		if err != nil {
			t.Fatal(err)
		}
		want := strings.TrimRight(u.EscapedPath(), "/") + got.EscapedPath()
		out := target.url(got)
		if out.EscapedPath() != want || out.RawQuery != got.RawQuery {
			t.Errorf("base %q, in %q: sent %q, want %q", base, in, out.RequestURI(), want)
		}
	})
}
