package integration

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Promise: whatever arrives on the port, the process lives, its memory stays flat, and no request is read two ways.

// probe sends bytes, closes its sending side, and returns the status of the answer, 0 if the connection just ended.
func probe(t *testing.T, addr, raw string) int {
	t.Helper()
	c := dial(t, addr)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(clientLimit))
	_, _ = io.WriteString(c, raw) // the proxy may close before it has read all
	_ = c.Conn.(*net.TCPConn).CloseWrite()
	resp, err := http.ReadResponse(c.br, nil)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

func TestHostileRequestsAreRefused(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).onAny(page("Cache-Control: max-age=60"))
	p := before(t, o)
	const host = "Host: " + site + "\r\n"
	cases := []struct {
		name, raw string
		statuses  []int
	}{
		{"garbage", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 garbage\r\n\r\n", []int{400, 0}},
		{"a lone line", "hello\r\n\r\n", []int{400, 0}},
		{"nothing", "", []int{0}},
		{"1 MiB of one field", "GET / HTTP/1.1\r\n" + host + "X: " + strings.Repeat("a", 1<<20) + "\r\n\r\n", []int{431, 0}},
		{"1 MiB of many fields", "GET / HTTP/1.1\r\n" + host + strings.Repeat("X-Field: value\r\n", 1<<16) + "\r\n", []int{431, 0}},
		{"1 MiB of path", "GET /" + strings.Repeat("a", 1<<20) + " HTTP/1.1\r\n" + host + "\r\n", []int{414, 431, 400, 0}},
		{"CL and TE", "POST / HTTP/1.1\r\n" + host + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", []int{400, 0}},
		{"TE and CL", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n", []int{400, 0}},
		{"two CL", "POST / HTTP/1.1\r\n" + host + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", []int{400, 0}},
		{"CL with a sign", "POST / HTTP/1.1\r\n" + host + "Content-Length: +1\r\n\r\na", []int{400, 0}},
		{"unknown TE", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", []int{400, 501, 0}},
		{"TE twice", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", []int{400, 501, 0}},
		{"space before the colon", "GET / HTTP/1.1\r\n" + host + "X-A : b\r\n\r\n", []int{400, 0}},
		{"no Host", "GET / HTTP/1.1\r\n\r\n", []int{400}},
		{"two Hosts", "GET / HTTP/1.1\r\n" + host + "Host: other\r\n\r\n", []int{400}},
		{"NUL in a field", "GET / HTTP/1.1\r\n" + host + "X: a\x00b\r\n\r\n", []int{400, 0}},
		{"bad version", "GET / HTTP/9.9\r\n" + host + "\r\n", []int{400, 505, 0}},
	}
	for _, c := range cases {
		if got := probe(t, p.Addr(), c.raw); !slices.Contains(c.statuses, got) {
			t.Errorf("%s: status %d, want one of %v", c.name, got, c.statuses)
		}
	}
	if n := o.total(); n != 0 {
		t.Errorf("%d of these reached the origin", n)
	}
	p.prime("/alive")
}

// What follows an ambiguous request on its connection is not read as another one.
func TestNothingIsSmuggledBehindAnAmbiguousRequest(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).onAny(page("Cache-Control: no-store"))
	p := before(t, o)
	const smuggled = "GET /smuggled HTTP/1.1\r\nHost: " + site + "\r\n\r\n"
	for _, raw := range []string{
		"POST / HTTP/1.1\r\nHost: " + site + "\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: " + site + "\r\nTransfer-Encoding: chunked\r\nTransfer-encoding: x\r\n\r\n0\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: " + site + "\r\nContent-Length: 0\r\nContent-Length: 44\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: " + site + "\r\nTransfer-Encoding: chunked\r\n\r\n0;a\nb\r\n\r\n",
	} {
		probe(t, p.Addr(), raw+smuggled)
	}
	o.wantCalls("/smuggled", 0)
}

// A body whose framing breaks (RFC 9112 §7.1) is answered with 400, whether its request was on the way to the origin or not, and the log
// says the same.
func TestMalformedUploadsAreAnswered(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).onAny(page("Cache-Control: no-store"))
	p := before(t, o)
	for i, body := range []string{"ZZ\r\n", "3\r\nabcd\r\n0\r\n\r\n", "3\r\nabc\r\n0\r\nno colon\r\n\r\n", strings.Repeat("4\r\nabcd\r\n", 5000) + "x"} {
		path := fmt.Sprint("/upload/", i)
		c := dial(t, p.Addr())
		c.write(t, request("POST", path, "Transfer-Encoding: chunked"))
		r := c.send(body)
		if r.Err != nil || r.Status != http.StatusBadRequest || !r.Close {
			t.Errorf("%.20q: status %d, close %t, %v", body, r.Status, r.Close, r.Err)
		}
		told := func(e map[string]any) bool {
			return e["path"] == path && e["status"] == 400.0 && e["result"] == "refused"
		}
		if !eventually(func() bool { return len(p.logged(told)) == 1 }) {
			t.Errorf("%.20q: no line says 400", body)
		}
	}
}

// A client that stops in the middle of its upload gets 408 (RFC 9110 §15.5.9) at the limit, and the log says the same.
func TestStalledUploadsAreAnswered(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).onAny(func(w http.ResponseWriter, r *http.Request, n int) {
		_, _ = io.Copy(io.Discard, r.Body)
		page("Cache-Control: no-store")(w, r, n)
	})
	p := start(t, conf{Origin: o.url, Extra: "http: { body: 500ms }\n"})
	for path, upload := range map[string][2]string{"/length": {"Content-Length: 10", "abc"}, "/chunked": {"Transfer-Encoding: chunked", "3\r\nabc\r\n"}} {
		c := dial(t, p.Addr())
		c.write(t, request("POST", path, upload[0]))
		r := c.send(upload[1])
		if r.Err != nil || r.Status != http.StatusRequestTimeout || !r.Close {
			t.Errorf("%s: status %d, close %t, %v", path, r.Status, r.Close, r.Err)
		}
		told := func(e map[string]any) bool {
			return e["path"] == path && e["status"] == 408.0 && e["result"] == "refused" && e["client_gone"] == nil
		}
		if !eventually(func() bool { return len(p.logged(told)) == 1 }) {
			t.Errorf("%s: no line says 408", path)
		}
	}
}

// A client that sends its head a byte at a time is cut at the header limit, and holds nobody else up meanwhile.
func TestSlowHeadersAreCutOff(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/", page("Cache-Control: max-age=60"))
	p := start(t, conf{Origin: o.url, Extra: "http: { header: 1s }\n"})
	began := time.Now()
	c := dial(t, p.Addr())
	c.write(t, "GET / HTTP/1.1\r\nHost: "+site+"\r\nX-Slow: ")
	ended := make(chan int, 1)
	go func() {
		resp, err := http.ReadResponse(c.br, nil)
		if err != nil {
			ended <- 0
			return
		}
		ended <- resp.StatusCode
	}()
	trickled := time.NewTicker(50 * time.Millisecond)
	defer trickled.Stop()
	for {
		select {
		case status := <-ended:
			if status != 0 && status != http.StatusRequestTimeout {
				t.Errorf("status %d, want 408 or a close", status)
			}
			if took := time.Since(began); took < 900*time.Millisecond || took > within(2*time.Second) {
				t.Errorf("cut after %v with a limit of 1 s", took)
			}
			p.prime("/")
			return
		case <-trickled.C:
			_, _ = io.WriteString(c, "a")
		}
	}
}

// roundsOfNoise is how many connections of noise are sent before and after the first memory reading.
const roundsOfNoise = 400

func TestMemoryStaysFlatUnderNoise(t *testing.T) {
	o := newOrigin(t).onAny(page("Cache-Control: max-age=60"))
	p := before(t, o)
	noise := func(seed uint64) {
		var done sync.WaitGroup
		slots := make(chan struct{}, 20)
		for i := range roundsOfNoise {
			slots <- struct{}{}
			done.Go(func() {
				defer func() { <-slots }()
				probe(t, p.Addr(), noiseBytes(seed+uint64(i)))
			})
		}
		done.Wait()
	}
	noise(0)
	first := p.mustRSS()
	noise(roundsOfNoise)
	noise(2 * roundsOfNoise)
	// Twice the work again may not need more than a moderate heap's worth of slack.
	if second := p.mustRSS(); second-first > 32<<20 {
		t.Errorf("resident memory went from %d to %d MiB", first>>20, second>>20)
	}
	p.prime("/alive")
}

func noiseBytes(seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 99))
	if seed%3 == 0 {
		return "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("h", 1<<19)
	}
	b := make([]byte, r.IntN(8<<10))
	for i := range b {
		b[i] = byte(r.UintN(256))
	}
	return string(b)
}

func (p *proxy) mustRSS() int64 {
	p.t.Helper()
	n, err := p.RSS()
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}
