package admin

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/swrproxy/swrproxy/cache"
)

// refusals notes what an Observer is told.
type refusals struct {
	cache.NopObserver
	events []cache.ReadEvent
}

func (r *refusals) ReadDone(ev *cache.ReadEvent) { r.events = append(r.events, *ev) }

func TestPurgeMethod(t *testing.T) {
	local := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for name, c := range map[string]struct {
		method, peer string
		allow        []netip.Prefix
		header       string
		status       int
		url          string // what was purged
	}{
		"allowed":                {"PURGE", "127.0.0.1:5", local, "", 200, "http://example.org/a%2Fb?c=%zz"},
		"allowed, mapped":        {"PURGE", "[::ffff:127.0.0.1]:5", local, "", 200, "http://example.org/a%2Fb?c=%zz"},
		"allowed, with zone":     {"PURGE", "[fd00::1%eth0]:5", local, "", 200, "http://example.org/a%2Fb?c=%zz"},
		"other peer":             {"PURGE", "192.0.2.1:5", local, "", 405, ""},
		"switched off":           {"PURGE", "127.0.0.1:5", nil, "", 405, ""},
		"through a proxy":        {"PURGE", "127.0.0.1:5", local, "X-Forwarded-For: 192.0.2.1", 405, ""},
		"through another":        {"PURGE", "127.0.0.1:5", local, "Via: 1.1 p", 405, ""},
		"from a page":            {"PURGE", "127.0.0.1:5", local, "Origin: http://evil.example", 405, ""},
		"GET":                    {"GET", "127.0.0.1:5", local, "", 299, ""},
		"another unknown method": {"PURGER", "127.0.0.1:5", local, "", 299, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f, obs := &fakeCache{}, &refusals{}
			next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(299) })
			h := PurgeMethod{Cache: f, Allow: func() []netip.Prefix { return c.allow }, Scheme: func(*http.Request) string { return "http" }, Observer: obs}.Wrap(next)
			r := httptest.NewRequest(c.method, "/x/../a%2fb?c=%zz", nil)
			r.Host, r.RemoteAddr = "Example.org:80", c.peer
			if key, value, ok := strings.Cut(c.header, ": "); ok {
				r.Header.Set(key, value)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != c.status || f.sel.URL != c.url {
				t.Errorf("%d, purged %q; want %d, %q: %s", w.Code, f.sel.URL, c.status, c.url, w.Body)
			}
			refused := c.status == http.StatusMethodNotAllowed
			if (w.Header().Get("Allow") != "") != refused || (len(obs.events) == 1) != refused {
				t.Errorf("Allow %q, %d events", w.Header().Get("Allow"), len(obs.events))
			}
			if refused && obs.events[0].Status != 405 {
				t.Errorf("event %+v", obs.events[0])
			}
			if c.status != 299 && !strings.HasPrefix(w.Header().Get("Cache-Status"), "swrproxy; detail=") {
				t.Errorf("Cache-Status %q", w.Header().Get("Cache-Status"))
			}
		})
	}
}
