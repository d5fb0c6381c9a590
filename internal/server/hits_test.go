package server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swrproxy/swrproxy/cache"
)

// fixedHits answers every target that it has, whatever the fields say.
type fixedHits struct {
	bodies map[string][]byte
	sent   chan string // one line for each HitSent
	before func()      // called by Hit
}

func (f *fixedHits) Hit(q *cache.HitRequest, a *cache.HitAnswer) bool {
	body, ok := f.bodies[string(q.Target)]
	if !ok {
		return false
	}
	if f.before != nil {
		f.before()
	}
	a.Head = append(a.Head, "HTTP/1.1 200 OK\r\nX: hit\r\nContent-Length: "...)
	a.Head = strconv.AppendInt(a.Head, int64(len(body)), 10)
	a.Head = append(a.Head, "\r\n\r\n"...)
	a.Body = body
	if q.Method == http.MethodHead {
		a.Body = nil
	}
	return true
}

func (f *fixedHits) HitSent(_ *cache.HitAnswer, sent int64, whole bool) {
	if f.sent != nil {
		f.sent <- fmt.Sprintf("%d %t", sent, whole)
	}
}

func hitServer(t testing.TB, o Options, hits *fixedHits) *Server {
	o.Hits = hits
	return start(t, o, http.HandlerFunc(echo))
}

// Hits stand between requests of every other kind, each answered in its turn.
func TestHitsBetweenOthers(t *testing.T) {
	big := string(bulkBody()[:1<<20])
	s := hitServer(t, Options{}, &fixedHits{bodies: map[string][]byte{"/hit": []byte("from memory"), "/big": []byte(big)}})
	c := dial(t, s)
	r := bufio.NewReader(c)
	get := func(target string) string { return "GET " + target + " HTTP/1.1\r\n" + host + "\r\n" }
	for i, step := range []struct {
		request string
		want    []string
	}{
		{get("/hit"), []string{"from memory"}},
		{get("/miss"), []string{`GET /miss ""`}},
		{get("/hit") + get("/big") + "\r\n" + get("/hit"), []string{"from memory", big, "from memory"}},
		{
			"POST /hit HTTP/1.1\r\n" + host + "Content-Length: 30\r\n\r\nGET /hit HTTP/1.1\r\nHost: x\r\n\r\n",
			[]string{`POST /hit "GET /hit HTTP/1.1\r\nHost: x\r\n\r\n"`},
		},
		{get("/hit") + get("/miss"), []string{"from memory", `GET /miss ""`}},
		{"POST /p HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", []string{`POST /p "abc"`}},
		{get("/hit"), []string{"from memory"}},
		{"GET /hit HTTP/1.1\r\n" + host + "Content-Length: 2\r\n\r\nxy", []string{`GET /hit "xy"`}},
		{get("/hit"), []string{"from memory"}},
		// What comes behind a request that is still under way stays on its path.
		{get("/miss") + get("/hit") + get("/miss"), []string{`GET /miss ""`, `GET /hit ""`, `GET /miss ""`}},
		{get("/hit"), []string{"from memory"}},
	} {
		send(t, c, step.request)
		for k, want := range step.want {
			if resp, got := answer(t, r); got != want || (resp.Header.Get("X") == "hit") != (want == "from memory" || want == big) {
				t.Fatalf("step %d, answer %d: %.60q %v, want %.60q", i, k, got, resp.Header, want)
			}
		}
	}
	send(t, c, "HEAD /hit HTTP/1.1\r\n"+host+"\r\n")
	if resp, err := http.ReadResponse(r, &http.Request{Method: http.MethodHead}); err != nil || resp.ContentLength != 11 {
		t.Fatal(resp, err)
	}
	send(t, c, "GET /hit HTTP/1.1\r\n"+host+"Expect: 100-continue\r\nContent-Length: 2\r\n\r\nxy")
	if line, _ := r.ReadString('\n'); line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("expectation: %q", line)
	}
	_, _ = r.ReadString('\n')
	if _, got := answer(t, r); got != `GET /hit "xy"` {
		t.Error(got)
	}
	send(t, c, "GET /hit HTTP/1.1\r\n"+host+"Connection: close\r\n\r\n")
	if b, err := io.ReadAll(r); err != nil || !strings.HasSuffix(string(b), `GET /hit ""`) {
		t.Errorf("%q, %v", b, err)
	}
	if n := s.Stats().Hits; n != 9 {
		t.Errorf("%d hits, want 9", n)
	}
}

// A head that comes in pieces takes the ordinary path and is timed there; the next whole one is a hit again.
func TestHeadInPieces(t *testing.T) {
	s := hitServer(t, Options{ReadHeaderTimeout: 100 * time.Millisecond}, &fixedHits{bodies: map[string][]byte{"/h": []byte("hit")}})
	c := dial(t, s)
	r := bufio.NewReader(c)
	for range 3 {
		for _, b := range []byte("GET /h HTTP/1.1\r\n" + host + "X: pieces\r\n\r\n") {
			send(t, c, string(b))
		}
		if _, got := answer(t, r); got != `GET /h ""` && got != "hit" { // who reads late finds it whole
			t.Errorf("got %q", got)
		}
		send(t, c, "GET /h HTTP/1.1\r\n"+host+"\r\n")
		if _, got := answer(t, r); got != "hit" {
			t.Errorf("got %q behind a head in pieces", got)
		}
	}
	send(t, c, "GET /h HTTP/1.1\r\nHo")
	if resp, _ := answer(t, r); resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("status %d, want 408", resp.StatusCode)
	}
}

// The idle timeout runs from the last answer, whoever gave it: eight hits span twice the timeout, then silence ends the connection.
func TestIdleTimeoutAcrossHits(t *testing.T) {
	const idle = 400 * time.Millisecond
	s := hitServer(t, Options{IdleTimeout: idle, ReadHeaderTimeout: idle}, &fixedHits{bodies: map[string][]byte{"/h": nil}})
	c := dial(t, s)
	r := bufio.NewReader(c)
	tick := time.NewTicker(idle / 4)
	defer tick.Stop()
	for range 8 {
		send(t, c, "GET /h HTTP/1.1\r\n"+host+"\r\n")
		answer(t, r)
		<-tick.C
	}
	if b, err := io.ReadAll(r); err != nil || len(b) > 0 {
		t.Errorf("got %q, %v; want a silent end", b, err)
	}
}

func TestHitToStalledReader(t *testing.T) {
	hits := &fixedHits{bodies: map[string][]byte{"/big": bulkBody()}, sent: make(chan string, 1)}
	s := hitServer(t, Options{WriteIdle: 100 * time.Millisecond}, hits)
	c := slowReader(t, s)
	send(t, c, "GET /big HTTP/1.1\r\n"+host+"\r\n")
	if got := <-hits.sent; !strings.HasSuffix(got, " false") || got == "0 false" {
		t.Errorf("reported %q, want a part", got)
	}
}

func TestHitToSteadyReader(t *testing.T) {
	hits := &fixedHits{bodies: map[string][]byte{"/big": bulkBody()}, sent: make(chan string, 1)}
	s := hitServer(t, Options{WriteIdle: steadyLimit}, hits)
	c := slowReader(t, s)
	send(t, c, "GET /big HTTP/1.1\r\n"+host+"\r\n")
	wantWholeHit(t, hits, &paced{r: c, per: steadyPiece, pause: steadyPause})
}

// wantWholeHit reads the answer with the bulk body, which must be reported as whole.
func wantWholeHit(t *testing.T, hits *fixedHits, r io.Reader) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(r), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(got, bulkBody()) {
		t.Errorf("%d bytes, %v; want all %d as they are", len(got), err, bulk)
	}
	if got := <-hits.sent; got != fmt.Sprintf("%d true", bulk) {
		t.Errorf("reported %q", got)
	}
}

// A connection that is closed while its answer is being made closes behind the answer.
func TestCloseDuringHit(t *testing.T) {
	began, goOn := make(chan struct{}, 1), make(chan struct{})
	hits := &fixedHits{bodies: map[string][]byte{"/h": []byte("whole")}, before: func() { began <- struct{}{}; <-goOn }}
	s := hitServer(t, Options{DrainIdle: -1}, hits)
	c := dial(t, s)
	send(t, c, "GET /h HTTP/1.1\r\n"+host+"\r\n")
	<-began
	drained := make(chan struct{})
	go func() { defer close(drained); drain(t, s) }()
	<-s.stopping
	close(goOn)
	if b, err := io.ReadAll(c); err != nil || !strings.HasSuffix(string(b), "\r\n\r\nwhole") {
		t.Errorf("got %q, %v", b, err)
	}
	<-drained
}

func TestDrainUnderHits(t *testing.T) {
	s := hitServer(t, Options{DrainIdle: 300 * time.Millisecond}, &fixedHits{bodies: map[string][]byte{"/h": []byte("ok")}})
	var answered atomic.Int64
	enough := make(chan struct{})
	results := make(chan error, 16)
	for range cap(results) {
		c := dial(t, s)
		go func() { results <- askUntilClosed(c, func() { closeAt(answered.Add(1), 1000, enough) }) }()
	}
	<-enough
	drain(t, s)
	for range cap(results) {
		if err := <-results; err != nil {
			t.Errorf("a request failed: %v", err)
		}
	}
}

// Connections that only had hits end with the others when the time for what is on its way is over.
func TestDrainClosesRestingConnections(t *testing.T) {
	s := hitServer(t, Options{DrainIdle: 10 * time.Millisecond}, &fixedHits{bodies: map[string][]byte{"/h": nil}})
	for _, request := range []string{"", "GET /h HTTP/1.1\r\n" + host + "\r\n", "GET /miss HTTP/1.1\r\n" + host + "\r\n"} {
		c := dial(t, s)
		send(t, c, request)
		if request != "" {
			answer(t, bufio.NewReader(c))
		}
	}
	began := time.Now()
	drain(t, s)
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("drained in %v", took)
	}
}

func closeAt(n, at int64, c chan struct{}) {
	if n == at {
		close(c)
	}
}

// askUntilClosed asks again and again, at the pace of a client that does not saturate, until an answer says close.
func askUntilClosed(c net.Conn, answered func()) error {
	r := bufio.NewReader(c)
	for {
		if _, err := io.WriteString(c, "GET /h HTTP/1.1\r\n"+host+"\r\n"); err != nil {
			return err
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		answered()
		if resp.Close {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
}

func TestHitParse(t *testing.T) {
	sc := new(hitScratch)
	for request, want := range map[string]bool{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n":                                       true,
		"HEAD /a?b=c&d HTTP/1.1\r\nhost:a\r\nX:  y z \r\n\r\n":                    true,
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: Keep-Alive\r\n\r\n":             true,
		"GET / HTTP/1.1\r\nHost: a\r\nX:\r\n\r\n":                                 true,
		"GET / HTTP/1.1\r\n\r\n":                                                  false,
		"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n":                            false,
		"GET / HTTP/1.1\r\nHost:\r\n\r\n":                                         false,
		"GET / HTTP/1.1\r\nHost: a b\r\n\r\n":                                     false,
		"GET / HTTP/1.0\r\nHost: a\r\n\r\n":                                       false,
		"POST / HTTP/1.1\r\nHost: a\r\n\r\n":                                      false,
		"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n":                               false,
		"GET /%41 HTTP/1.1\r\nHost: a\r\n\r\n":                                    false,
		"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n":                                    false,
		"GET /\\ HTTP/1.1\r\nHost: a\r\n\r\n":                                     false,
		"GET /\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n":                               false,
		"GET /  HTTP/1.1\r\nHost: a\r\n\r\n":                                      false,
		"GET / HTTP/1.1\nHost: a\n\n":                                             false,
		"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n":                         false,
		"GET / HTTP/1.1\r\nHost: a\r\nX : a\r\n\r\n":                              false,
		"GET / HTTP/1.1\r\nHost: a\r\nX: \x80\r\n\r\n":                            false,
		"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n":                  false,
		"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n":         false,
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n":                  false,
		"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\n\r\n":                         false,
		"GET / HTTP/1.1\r\nHost: a\r\nexpect: 100-continue\r\n\r\n":               false,
		"GET / HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\n\r\n":                   false,
		"GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: y\r\n", 64) + "\r\n": true,
		"GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: y\r\n", 65) + "\r\n": false,
	} {
		if got := sc.parse([]byte(request)); (got > 0) != want || (want && got != len(request)) {
			t.Errorf("%q: %d of %d octets", request, got, len(request))
		}
	}
	for _, host := range []string{"a", "b c", "a", "", "b c", "a"} { // the last valid one is remembered
		want := host == "a"
		if got := sc.parse([]byte("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n")); (got > 0) != want {
			t.Errorf("host %q: %d", host, got)
		}
	}
	sc.parse([]byte("HEAD /a?b HTTP/1.1\r\nX:  y \r\nHost: h:1\r\n\r\n"))
	if q := &sc.req; q.Method != "HEAD" || string(q.Target) != "/a?b" || string(q.Host) != "h:1" || len(q.Fields) != 1 ||
		string(q.Fields[0].Name) != "X" || string(q.Fields[0].Value) != "y" {
		t.Errorf("parsed %+v", *q)
	}
}

// FuzzHitParse: what is parsed at the start of a buffer is a whole head, ends where the ordinary path finds its end, and has no body there either.
func FuzzHitParse(f *testing.F) {
	for _, seed := range []string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: b\r\n\r\n", "HEAD /a HTTP/1.1\r\nX:\t y\r\nHost: a:1\r\n\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\n\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nX: 12345678\n\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx",
	} {
		f.Add([]byte(seed))
	}
	sc := new(hitScratch)
	f.Fuzz(func(t *testing.T, b []byte) {
		n := sc.parse(b)
		if n == 0 {
			return
		}
		if end, _ := headEnd(b, 0); end != n {
			t.Fatalf("%q: %d, want %d", b, n, end)
		}
		if h, refused := scanHead(b[:n]); refused != refusalNone || h.framing != framingNone {
			t.Errorf("%q: %+v, %v", b[:n], h, refused)
		}
	})
}

func TestPrintableEnd(t *testing.T) {
	const length = 20
	for c := range 256 {
		for at := range length {
			v := []byte("abcdefghijklmnopqrst")
			v[at] = byte(c)
			want := at
			if (c >= ' ' && c < 0x7f) || c == '\t' {
				want = length
			}
			if got := printableEnd(v); got != want {
				t.Fatalf("%#x at %d: %d, want %d", c, at, got, want)
			}
			for behind := at + 1; behind < length; behind++ { // what follows changes nothing
				v[behind] = byte(c + 0x80)
				if got := printableEnd(v); want == at && got != at {
					t.Fatalf("%#x at %d and %#x at %d: %d", c, at, v[behind], behind, got)
				}
			}
		}
	}
}

func BenchmarkHitParse(b *testing.B) {
	for name, request := range map[string]string{
		"wrk": "GET /1024 HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n",
		"browser": "GET /1024 HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n" +
			"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n" +
			"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-US,en;q=0.5\r\n" +
			"Accept-Encoding: gzip, deflate, br, zstd\r\nConnection: keep-alive\r\nUpgrade-Insecure-Requests: 1\r\n" +
			"Sec-Fetch-Dest: document\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Site: none\r\nSec-Fetch-User: ?1\r\nPriority: u=0, i\r\n\r\n",
	} {
		b.Run(name, func(b *testing.B) {
			sc := new(hitScratch)
			head := []byte(request)
			b.ReportAllocs()
			for b.Loop() {
				if sc.parse(head) == 0 {
					b.Fatal("refused")
				}
			}
		})
	}
}
