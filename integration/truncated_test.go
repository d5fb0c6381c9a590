package integration

import (
	"fmt"
	"net"
	"net/http"
	"testing"
)

// Promise: a body that the origin cut short is never taken for a whole one (RFC 9112 §8, RFC 9111 §3.3).

func TestBodyCutShort(t *testing.T) {
	t.Parallel()
	const whole = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 5\r\nConnection: close\r\n\r\nwhole"
	const head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n"
	const private = "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\n"
	cuts := map[string]string{
		"by content length":            head + "Content-Length: 1000\r\n\r\nonly this much",
		"chunked, within a chunk":      head + "Transfer-Encoding: chunked\r\n\r\n100\r\nonly this much",
		"chunked, without a last one":  head + "Transfer-Encoding: chunked\r\n\r\n4\r\nonly\r\n",
		"chunked, with a broken size":  head + "Transfer-Encoding: chunked\r\n\r\n4\r\nonly\r\nZZ\r\nthis",
		"chunked, ends after the zero": head + "Transfer-Encoding: chunked\r\n\r\n4\r\nonly\r\n0",
		"chunked, broken at once":      head + "Transfer-Encoding: chunked\r\n\r\nZZ\r\n",
		"chunked, ends at once":        head + "Transfer-Encoding: chunked\r\n\r\n",
		"by content length, at once":   head + "Content-Length: 1000\r\n\r\n",
		"private, broken at once":      private + "Transfer-Encoding: chunked\r\n\r\nZZ\r\n",
		"private, with a broken size":  private + "Transfer-Encoding: chunked\r\n\r\n4\r\nonly\r\nZZ\r\nthis",
		"private, by content length":   private + "Content-Length: 1000\r\n\r\nonly this much",
	}
	for name, cut := range cuts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := rawOrigin(t, func(c net.Conn, _ string, n int) {
				if n <= 2 {
					_, _ = c.Write([]byte(cut))
					return
				}
				_, _ = c.Write([]byte(whole))
			})
			p := start(t, conf{Origin: o.url})
			for _, r := range []reply{p.do("POST", "/cut", "Content-Length: 0"), p.get("/cut")} {
				told := r.Status == http.StatusBadGateway && r.BodyErr == nil
				cut := r.Status == http.StatusOK && r.BodyErr != nil
				if r.Err != nil || !told && !cut {
					t.Errorf("%v, status %d, body %q, %v; want 502, or a transfer that breaks off", r.Err, r.Status, r.Body, r.BodyErr)
				}
			}
			p.awaitStatus("/cut", http.StatusOK).want(t, http.StatusOK, "whole")
			p.get("/cut").want(t, http.StatusOK, "whole")
		})
	}
}

// LCK-13: readers who joined are cut off as well, not ended cleanly.
func TestReadersWhoJoinedABrokenBodyAreCutOff(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	o := rawOrigin(t, func(c net.Conn, _ string, n int) {
		if n == 1 {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\nc\r\nfirst half, \r\n")
			<-g.ch
			return
		}
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nwhole")
	})
	p := start(t, conf{Origin: o.url})
	first, _, _ := dial(t, p.Addr()).start(t, request("GET", "/b"), len("first half, "))
	second, _, _ := dial(t, p.Addr()).start(t, request("GET", "/b"), len("first half, "))
	if n := o.count(); n != 1 {
		t.Errorf("origin saw %d requests, want 1", n)
	}
	g.open()
	for i, resp := range []*http.Response{first, second} {
		if _, err := resp.Body.Read(make([]byte, 100)); err == nil || err.Error() == "EOF" {
			t.Errorf("reader %d: body ended with %v, want a broken transfer", i+1, err)
		}
	}
	p.awaitStatus("/b", http.StatusOK).want(t, http.StatusOK, "whole")
}

// A good record survives a refresh whose body broke off.
func TestARefreshCutShortDoesNotReplaceTheRecord(t *testing.T) {
	t.Parallel()
	o := rawOrigin(t, func(c net.Conn, _ string, n int) {
		if n == 1 {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nCache-Control: max-age=1, stale-while-revalidate=60\r\nContent-Length: 4\r\n\r\ngood")
			return
		}
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 100\r\n\r\ncut")
	})
	p := start(t, conf{Origin: o.url})
	p.get("/r").want(t, http.StatusOK, "good")
	expire()
	p.get("/r").want(t, http.StatusOK, "good")
	if !eventually(func() bool { return len(p.warnings("/r")) > 0 }) {
		t.Error("no warning about the broken refresh")
	}
	for range 5 {
		p.get("/r").want(t, http.StatusOK, "good")
	}
}
