package integration

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Promise: fields that belong to one connection stay on it (RFC 9110 §7.6.1), and framing is right on every path.

// HBH-01.
func TestConnectionFieldsAreNotStoredOrReplayed(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/h", page("Cache-Control: max-age=60", "Connection: X-Secret", "X-Secret: 1", "Keep-Alive: timeout=5",
		"Proxy-Authenticate: Basic", "Upgrade: h2c", "Proxy-Connection: keep-alive", "X-Kept: yes"))
	p := before(t, o)
	c := dial(t, p.Addr())
	for _, name := range []string{"miss", "hit"} {
		r := c.send(request("GET", "/h"))
		r.want(t, http.StatusOK, version(1, "/h"))
		for _, field := range []string{"Connection", "X-Secret", "Keep-Alive", "Proxy-Authenticate", "Upgrade", "Proxy-Connection"} {
			if v := r.Header.Values(field); len(v) > 0 {
				t.Errorf("%s: client was sent %s: %q", name, field, v)
			}
		}
		if r.Header.Get("X-Kept") != "yes" {
			t.Errorf("%s: X-Kept is lost", name)
		}
	}
	o.wantCalls("/h", 1)
}

// HBH-03: exactly one last chunk, hit or miss, and the connection goes on.
func TestOneConnectionCarriesMissesAndHits(t *testing.T) {
	t.Parallel()
	chunked := func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Cache-Control", "max-age=60")
		_, _ = io.WriteString(w, "one, ")
		w.(http.Flusher).Flush()
		_, _ = io.WriteString(w, "two")
	}
	o := newOrigin(t).on("/chunked", chunked).on("/sized", page("Cache-Control: max-age=60")).
		on("/post", page("Cache-Control: no-store")).on("/none", answer(http.StatusNoContent, ""))
	p := before(t, o)
	c := dial(t, p.Addr())
	for range 3 {
		c.send(request("GET", "/chunked")).want(t, http.StatusOK, "one, two")
		c.send(request("GET", "/sized")).want(t, http.StatusOK, version(1, "/sized"))
		if r := c.send(request("HEAD", "/chunked")); r.Status != http.StatusOK || r.Body != "" {
			t.Errorf("HEAD: status %d, body %q, %v", r.Status, r.Body, r.Err)
		}
		if r := c.send(request("POST", "/post", "Content-Length: 3") + "abc"); r.Status != http.StatusOK {
			t.Errorf("POST: status %d, %v", r.Status, r.Err)
		}
		if r := c.send(request("GET", "/none")); r.Status != http.StatusNoContent {
			t.Errorf("204: status %d, %v", r.Status, r.Err)
		}
	}
	o.wantCalls("/chunked", 1)
}

// Requests sent without waiting are answered in their order, hits and misses mixed.
func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).onAny(page("Cache-Control: max-age=60"))
	p := before(t, o)
	p.prime("/p0")
	c := dial(t, p.Addr())
	var all strings.Builder
	order := []string{"/p0", "/p1", "/p0", "/p0", "/p2", "/p0", "/p1"}
	for _, path := range order {
		all.WriteString(request("GET", path))
	}
	c.write(t, all.String())
	for _, path := range order {
		c.read("GET", time.Now()).want(t, http.StatusOK, version(1, path))
	}
}

// HBH-05: a client can not use Connection to remove what the proxy adds, nor to get an answer that was made for somebody else.
func TestClientsCanNotStripFieldsByConnection(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/strip", page("Cache-Control: max-age=60"))
	p := before(t, o)
	p.get("/strip", "Connection:", "Connection: X-Forwarded-For, Via, X-Mine, Authorization", "X-Mine: 1", "Authorization: Bearer a")
	h := o.request("/strip", 1).Header
	if got := h.Get("X-Forwarded-For"); got != "127.0.0.1" {
		t.Errorf("X-Forwarded-For %q", got)
	}
	if h.Get("Via") == "" {
		t.Error("no Via")
	}
	if h.Get("X-Mine") != "" {
		t.Errorf("X-Mine went through: %q", h.Get("X-Mine"))
	}
	// Whether or not Authorization went on, the answer to a request that had it is not public.
	if p.get("/strip").hit() {
		t.Error("an answer to Authorization was shared")
	}
}

func TestForwardingFieldsComeFromTheRealPeer(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/fwd", page("Cache-Control: no-store"))
	p := before(t, o)
	p.get("/fwd", "X-Forwarded-For: 203.0.113.9", "X-Forwarded-Host: evil.example", "X-Forwarded-Proto: https", "Forwarded: for=203.0.113.9")
	r := o.request("/fwd", 1)
	want := map[string]string{"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": site, "X-Forwarded-Proto": "http"}
	for name, v := range want {
		if got := r.Header.Get(name); got != v {
			t.Errorf("%s: %q, want %q", name, got, v)
		}
	}
	if f := r.Header.Get("Forwarded"); strings.Contains(f, "203.0.113.9") {
		t.Errorf("Forwarded: %q", f)
	}
	if r.Host != site {
		t.Errorf("origin saw Host %q, want %q", r.Host, site)
	}
}

// HBH-06: only protocols on the list are upgraded.
func TestUpgradeToH2CIsNotPassedOn(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/up", page("Cache-Control: no-store"))
	p := before(t, o)
	r := p.get("/up", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA")
	if r.Status == http.StatusSwitchingProtocols {
		t.Fatal("h2c upgrade was accepted")
	}
	if h := o.request("/up", 1).Header; h.Get("Upgrade") != "" || h.Get("Http2-Settings") != "" {
		t.Errorf("origin was sent Upgrade %q, HTTP2-Settings %q", h.Get("Upgrade"), h.Get("Http2-Settings"))
	}
}

// STR-01: a WebSocket is a tunnel once both sides agree.
func TestWebSocketTunnel(t *testing.T) {
	t.Parallel()
	o := rawOrigin(t, func(c net.Conn, head string, _ int) {
		if !strings.Contains(strings.ToLower(head), "upgrade: websocket") {
			fmt.Fprint(c, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
			return
		}
		fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n")
		_, _ = io.Copy(c, c)
	})
	p := start(t, conf{Origin: o.url})
	c := dial(t, p.Addr())
	r := c.send(request("GET", "/ws", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: x", "Sec-WebSocket-Version: 13"))
	if r.Status != http.StatusSwitchingProtocols || r.Header.Get("Sec-Websocket-Accept") != "x" {
		t.Fatalf("status %d, header %v, %v", r.Status, r.Header, r.Err)
	}
	for _, frame := range []string{"ping\n", "a longer frame\n", "\x00\x01\x02\n"} {
		c.write(t, frame)
		got, err := c.br.ReadString('\n')
		if err != nil || got != frame {
			t.Errorf("sent %q, got %q, %v", frame, got, err)
		}
	}
}

// Expect: 100-continue is answered before the client sends its body.
func TestExpectContinue(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/expect", page("Cache-Control: no-store"))
	p := before(t, o)
	c := dial(t, p.Addr())
	c.write(t, request("POST", "/expect", "Content-Length: 4", "Expect: 100-continue"))
	first, err := http.ReadResponse(c.br, nil)
	if err != nil || first.StatusCode != http.StatusContinue {
		t.Fatalf("interim answer: %v, %v", first, err)
	}
	c.write(t, "body")
	c.read("POST", time.Now()).want(t, http.StatusOK, version(1, "/expect"))
}
