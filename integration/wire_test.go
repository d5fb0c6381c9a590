package integration

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Promise: an answer from the cache looks on the wire like one from the origin, however its request arrived.

// RFC 9112 §9.3, §6.1: no chunks and no kept connection for HTTP/1.0, whether miss or hit.
func TestHTTP10Clients(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/old", trickle(3, 0, "Cache-Control: max-age=60"))
	p := before(t, o)
	for _, name := range []string{"miss", "hit"} {
		c := dial(t, p.Addr())
		c.write(t, "GET /old HTTP/1.0\r\nHost: "+site+"\r\n\r\n")
		resp, err := http.ReadResponse(c.br, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || string(body) != trickled(3) || len(resp.TransferEncoding) > 0 {
			t.Errorf("%s: body %q, %v, transfer encoding %v", name, body, err, resp.TransferEncoding)
		}
		if _, err := c.br.ReadByte(); err != io.EOF {
			t.Errorf("%s: connection goes on: %v", name, err)
		}
	}
	o.wantCalls("/old", 1)
}

// Interim answers are not for HTTP/1.0 (RFC 9110 §15.2).
func TestHTTP10ClientsGetNoInterimAnswers(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/hints", func(w http.ResponseWriter, r *http.Request, n int) {
		w.WriteHeader(http.StatusEarlyHints)
		page()(w, r, n)
	})
	p := before(t, o)
	r := fetch(t, p.Addr(), "GET /hints HTTP/1.0\r\nHost: "+site+"\r\n\r\n")
	r.want(t, http.StatusOK, version(1, "/hints"))
	if len(r.Interim) > 0 {
		t.Errorf("interim answers %v", r.Interim)
	}
}

func TestConnectionCloseIsHonouredOnHits(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/c", page("Cache-Control: max-age=60"))
	p := before(t, o)
	p.prime("/c")
	c := dial(t, p.Addr())
	r := c.send(request("GET", "/c", "Connection: close"))
	r.want(t, http.StatusOK, version(1, "/c"))
	if !r.Close {
		t.Error("the answer does not say close")
	}
	if _, err := c.br.ReadByte(); err != io.EOF {
		t.Errorf("the connection goes on: %v", err)
	}
}

// A client that has said all it had to say still listens. (On a miss that can not be told from one that has gone away, and is taken as such.)
func TestHalfClosedClientsAreAnsweredFromTheCache(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/half", page("Cache-Control: max-age=60"))
	p := before(t, o)
	p.prime("/half")
	c := dial(t, p.Addr())
	c.write(t, request("GET", "/half"))
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	c.read("GET", time.Now()).want(t, http.StatusOK, version(1, "/half"))
}

// However a head is cut into packets, its answer is the same.
func TestHeadsInPieces(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/p", page("Cache-Control: max-age=60", `ETag: "a"`))
	p := before(t, o)
	p.prime("/p")
	text := request("GET", "/p", "Accept: */*", "X-Field: value")
	c := dial(t, p.Addr())
	for cut := 1; cut < len(text); cut += 3 {
		c.write(t, text[:cut])
		time.Sleep(time.Millisecond) // so that the pieces travel apart
		c.write(t, text[cut:])
		r := c.read("GET", time.Now())
		r.want(t, http.StatusOK, version(1, "/p"))
		r.wantHit(t, true)
	}
	// Two requests in one packet, the second cut.
	c.write(t, text+text[:10])
	c.read("GET", time.Now()).want(t, http.StatusOK, version(1, "/p"))
	c.write(t, text[10:])
	c.read("GET", time.Now()).want(t, http.StatusOK, version(1, "/p"))
	o.wantCalls("/p", 1)
}

func TestManyPipelinedHits(t *testing.T) {
	t.Parallel()
	const n = 2000
	o := newOrigin(t).on("/pipe", page("Cache-Control: max-age=60", `ETag: "a"`))
	p := before(t, o)
	p.prime("/pipe")
	c := dial(t, p.Addr())
	go func() { // the answers fill the buffers, so somebody has to read meanwhile
		text := request("GET", "/pipe") + request("HEAD", "/pipe") + request("GET", "/pipe", `If-None-Match: "a"`)
		_, _ = io.WriteString(c, strings.Repeat(text, n))
	}()
	_ = c.SetDeadline(time.Now().Add(clientLimit))
	for range n {
		c.read("GET", time.Now()).want(t, http.StatusOK, version(1, "/pipe"))
		c.read("HEAD", time.Now()).want(t, http.StatusOK, "")
		c.read("GET", time.Now()).want(t, http.StatusNotModified, "")
		if t.Failed() {
			return
		}
	}
	o.wantCalls("/pipe", 1)
}

// Hit and miss have the same fields, but for those that say which it was.
func TestHitsCarryTheFieldsOfTheMiss(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/f", page("Cache-Control: max-age=60", `ETag: "a"`, "Content-Type: text/html; charset=utf-8", "Content-Language: en",
		"X-One: 1", "X-Two: a", "X-Two: b", "Link: </a>; rel=next", "Server: o/1", "Vary: Accept", "Warning: 199 - x", "X-Empty:"))
	p := before(t, o)
	miss, hit := p.get("/f", "Accept: */*"), p.get("/f", "Accept: */*")
	miss.wantHit(t, false)
	hit.wantHit(t, true)
	for _, name := range []string{"Age", "Cache-Status"} {
		miss.Header.Del(name)
		hit.Header.Del(name)
	}
	for name := range miss.Header {
		if got, want := strings.Join(hit.Header[name], "|"), strings.Join(miss.Header[name], "|"); got != want {
			t.Errorf("%s: hit has %q, miss had %q", name, got, want)
		}
	}
	for name := range hit.Header {
		if _, ok := miss.Header[name]; !ok {
			t.Errorf("hit has %s: %q, miss had none", name, hit.Header[name])
		}
	}
}
