package integration

import (
	"net"
	"net/http"
	"testing"
	"time"
)

// Promise: a failing origin is survived as far as its own words allow, and never further.

func TestOriginDownInsideItsStaleIfErrorWindow(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/sie", page("Cache-Control: max-age=1, stale-if-error=600"))
	p := before(t, o)
	p.prime("/sie")
	o.stop()
	expire()
	for range 5 {
		r := p.get("/sie")
		r.want(t, http.StatusOK, version(1, "/sie"))
		r.wantHit(t, true)
	}
}

// SWR-07: one reader waits for the time-out of an origin that hangs; those who come later, over several back-offs, do not, and find its return.
func TestOriginHangsInsideItsStaleIfErrorWindow(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	g := newGate(t)
	o.on("/hung", page("Cache-Control: max-age=1, stale-if-error=600"), g.hold(page("Cache-Control: max-age=600")))
	const header = time.Second
	p := start(t, conf{
		Fill:  "{ tenure: 3s, backoff: { first: 100ms, max: 10s } }",
		Extra: "origins: { app: { url: '" + o.url + "', timeouts: { header: 1s } } }\n",
	})
	p.prime("/hung")
	expire()
	if r := p.get("/hung"); r.Took < header || r.Body != version(1, "/hung") {
		t.Errorf("the first reader got %q after %v", r.Body, r.Took)
	}
	c := dial(t, p.Addr())
	for calls := o.count("/hung"); o.count("/hung") < calls+3; time.Sleep(5 * time.Millisecond) {
		r := c.send(request("GET", "/hung"))
		r.want(t, http.StatusOK, version(1, "/hung"))
		if r.Err != nil || r.Took > header/2 {
			t.Fatalf("a later reader waited %v, %v", r.Took, r.Err)
		}
	}
	g.open()
	if !eventually(func() bool { return c.send(request("GET", "/hung")).Body != version(1, "/hung") }) {
		t.Error("the origin's return was not found")
	}
}

// SWR-13: stale is forbidden, so the reader learns that the origin is down (RFC 9111 §5.2.2.2, §5.2.2.8, §5.2.2.10).
func TestOriginDownBehindADirectiveThatForbidsStale(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	directives := map[string]string{
		"/must-revalidate":  "max-age=1, must-revalidate",
		"/proxy-revalidate": "max-age=1, proxy-revalidate",
		"/s-maxage":         "s-maxage=1",
		"/both":             "max-age=1, must-revalidate, stale-if-error=600, stale-while-revalidate=600",
	}
	for path, cc := range directives {
		o.on(path, page("Cache-Control: "+cc, `ETag: "a"`))
	}
	p := before(t, o)
	for path := range directives {
		p.prime(path)
	}
	o.stop()
	expire()
	for path := range directives {
		r := p.get(path)
		if r.Err != nil || r.Status != http.StatusGatewayTimeout {
			t.Errorf("%s: status %d, %v, want 504; Cache-Status %q", path, r.Status, r.Err, r.cacheStatus())
		}
	}
}

// SWR-12: everything that would have been a 5xx counts, not only a 5xx (RFC 5861 §4).
func TestEveryKindOfFailureCountsAsAnError(t *testing.T) {
	t.Parallel()
	good := "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nCache-Control: max-age=1, stale-if-error=600\r\n\r\ngood"
	kinds := map[string]func(c net.Conn){
		"reset after the request": func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) },
		"closed without a byte":   func(net.Conn) {},
		"not HTTP at all":         func(c net.Conn) { _, _ = c.Write([]byte("SSH-2.0-OpenSSH_9.2\r\n\r\n")) },
		"head cut short":          func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Le")) },
		"500":                     func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 500 X\r\nContent-Length: 3\r\n\r\nbad")) },
		"502":                     func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 502 X\r\nContent-Length: 3\r\n\r\nbad")) },
		"503":                     func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 503 X\r\nContent-Length: 3\r\n\r\nbad")) },
		"504":                     func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 504 X\r\nContent-Length: 3\r\n\r\nbad")) },
	}
	for name, fail := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := rawOrigin(t, func(c net.Conn, _ string, n int) {
				if n == 1 {
					_, _ = c.Write([]byte(good))
					return
				}
				fail(c)
			})
			p := start(t, conf{Origin: o.url})
			p.get("/k").want(t, http.StatusOK, "good")
			expire()
			r := p.get("/k")
			r.want(t, http.StatusOK, "good")
			r.wantHit(t, true)
			if o.count() < 2 {
				t.Error("the origin was not asked")
			}
		})
	}
}

// SWR-10: the two windows are independent: stale at once while revalidation may run, after it an attempt first.
func TestStaleWindowsAreIndependent(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/two", page("Cache-Control: max-age=1, stale-while-revalidate=1, stale-if-error=600"),
		answer(http.StatusServiceUnavailable, "down"))
	p := before(t, o)
	p.prime("/two")
	time.Sleep(2200 * time.Millisecond) // past the first window, inside the second
	r := p.get("/two")
	r.want(t, http.StatusOK, version(1, "/two"))
	if o.count("/two") < 2 {
		t.Error("outside stale-while-revalidate the origin is asked first")
	}
}

// SWR-15: serving stale does not renew anything: the window ends when it ends.
func TestStaleIfErrorEndsInTime(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/ends", page("Cache-Control: max-age=1, stale-if-error=2"))
	p := before(t, o)
	p.prime("/ends")
	o.stop()
	expire()
	for range 3 {
		p.get("/ends").want(t, http.StatusOK, version(1, "/ends"))
	}
	time.Sleep(2200 * time.Millisecond)
	if r := p.get("/ends"); r.Status != http.StatusBadGateway && r.Status != http.StatusGatewayTimeout {
		t.Errorf("status %d after the window, want 502 or 504", r.Status)
	}
}

// AGE-10: errors without explicit freshness are not stored, a rule's ttl notwithstanding; our own never are.
func TestErrorsAreNotStored(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	for _, status := range []int{500, 502, 503, 504} {
		path := "/" + http.StatusText(status)[:3] + string(rune('0'+status%10))
		o.on(path, answer(status, "bad"), page("Cache-Control: no-store"))
		p := start(t, conf{Origin: o.url, Rules: "  - { origin: app, ttl: 10m }", Fill: "{ backoff: { first: 10ms, max: 20ms } }"})
		if r := p.get(path); r.Status != status {
			t.Errorf("%d: got %d", status, r.Status)
		}
		p.awaitStatus(path, http.StatusOK)
	}
}

func TestOwnErrorsAreNotStored(t *testing.T) {
	t.Parallel()
	o := rawOrigin(t, func(c net.Conn, _ string, n int) {
		if n > 2 {
			_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nup"))
		}
	})
	p := start(t, conf{Origin: o.url, Rules: "  - { origin: app, ttl: 10m, override: true }", Fill: "{ backoff: { first: 10ms, max: 20ms } }"})
	if r := p.get("/own"); r.Status != http.StatusBadGateway && r.Status != http.StatusGatewayTimeout {
		t.Errorf("status %d, want 502 or 504", r.Status)
	}
	p.awaitStatus("/own", http.StatusOK).want(t, http.StatusOK, "up")
}

// SWR-17: a negative answer expires like any other.
func TestNegativeAnswersExpire(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/neg", answer(http.StatusNotFound, "none", "Cache-Control: max-age=1"), page("Cache-Control: max-age=60"))
	p := before(t, o)
	p.get("/neg").want(t, http.StatusNotFound, "none")
	r := p.get("/neg")
	r.want(t, http.StatusNotFound, "none")
	r.wantHit(t, true)
	expire()
	p.get("/neg").want(t, http.StatusOK, version(2, "/neg"))
}
