package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/memory"
	"github.com/swrproxy/swrproxy/policy"
)

// bothPaths are two servers over two caches with the same origin and the same history, one with the hit path and one without.
type bothPaths struct {
	servers [2]*Server
	caches  [2]*cache.Cache
	hangs   [2]hang
	events  [2]*eventLog
}

// eventLog keeps what the observer is told of requests.
type eventLog struct {
	cache.NopObserver
	mu    sync.Mutex // guards following
	lines []string
}

func (l *eventLog) ReadDone(ev *cache.ReadEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// The strings of an event end with the call; Sprint copies them.
	l.lines = append(l.lines, fmt.Sprintf("%s %s://%s%s?%s %s %d %d %s %s rule=%s gone=%t remote=%t took=%t", ev.Method, ev.Scheme, ev.Host, ev.Path,
		ev.Query, ev.Proto, ev.Status, ev.Bytes, ev.Result, ev.Reason, ev.Rule, ev.ClientGone, ev.Remote != "", ev.Took > 0))
}

// take returns the lines since the last call. A line is written when the answer is out, so a client may be a moment ahead of it.
func (l *eventLog) take(n int) []string {
	for deadline := time.Now().Add(patience); ; {
		l.mu.Lock()
		if len(l.lines) >= n || time.Now().After(deadline) {
			defer l.mu.Unlock()
			lines := l.lines
			l.lines = nil
			return lines
		}
		l.mu.Unlock()
		time.Sleep(100 * time.Microsecond)
	}
}

var differentialRules = []cache.Rule{
	{Name: "keyed", Match: policy.MatchSpec{Paths: []string{"/keyed*"}}, Key: policy.KeySpec{
		Headers: []string{"X-Part"}, Cookies: []string{"part"}, Query: policy.QuerySpec{Ignore: []string{"utm_*"}, Sort: true},
	}},
	{Name: "deaf", Match: policy.MatchSpec{Paths: []string{"/deaf*"}}, Policy: policy.Settings{Directives: policy.IgnoreDirectives}},
	{Name: "pass", Match: policy.MatchSpec{Paths: []string{"/pass*"}}, Pass: true},
	{Name: "all"},
}

// hang holds refreshes of stale records until the test ends, so that they stay stale.
type hang struct {
	over chan struct{}
	held atomic.Int64 // those that wait now
}

func (h *hang) wait(r *http.Request) {
	h.held.Add(1)
	defer h.held.Add(-1)
	select {
	case <-h.over:
	case <-r.Context().Done():
	}
}

// modified is when the origin's pages were last changed: a day before it first says so.
var (
	modifiedAt = time.Now().Add(-24 * time.Hour)
	modified   = httpDate(modifiedAt)
)

func httpDate(t time.Time) string { return t.UTC().Format(http.TimeFormat) }

func differentialOrigin(hang *hang) http.Handler {
	bodies := map[string][]byte{"/big": bulkBody()[:300<<10], "/empty": nil}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h["Date"] = []string{httpDate(time.Now().Add(-time.Hour))} // so that no answer's age is less than what max-age=0 allows
		h.Set("Content-Type", "text/plain; charset=utf-8")
		h.Set("Cache-Control", "max-age=86400")
		h.Set("X-Method", r.Method)
		path, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/keyed"), ";")
		path = strings.TrimPrefix(path, "/deaf")
		if f := differentialPages[path]; f != nil && f(w, r, hang) {
			return
		}
		body, ok := bodies[path]
		if !ok {
			body = fmt.Appendf(nil, "%s?%s part=%s cookie=%s", r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Get("X-Part"), r.Header.Get("Cookie"))
		}
		h.Set("Content-Length", strconv.Itoa(len(body))) // else net/http's choice of framing depends on the pace of the fill
		if status := differentialStatus[path]; status != 0 {
			w.WriteHeader(status)
		}
		_, _ = w.Write(body)
	})
}

var differentialStatus = map[string]int{"/missing": http.StatusNotFound, "/moved": http.StatusMovedPermanently}

// differentialPages set fields by path; true means that the answer is complete.
var differentialPages = map[string]func(http.ResponseWriter, *http.Request, *hang) bool{
	"/tag": func(w http.ResponseWriter, _ *http.Request, _ *hang) bool {
		w.Header().Set("Etag", `"v1"`)
		w.Header().Set("Last-Modified", modified)
		w.Header().Set("Content-Language", "en")
		return false
	},
	"/weak": func(w http.ResponseWriter, _ *http.Request, _ *hang) bool {
		w.Header().Set("Etag", `W/"v1"`)
		w.Header().Set("Last-Modified", modified)
		return false
	},
	"/oddtag": func(w http.ResponseWriter, _ *http.Request, _ *hang) bool {
		w.Header().Set("Etag", `v 1`)
		return false
	},
	"/dated": func(w http.ResponseWriter, _ *http.Request, _ *hang) bool {
		w.Header().Set("Last-Modified", modified)
		return false
	},
	"/vary": func(w http.ResponseWriter, r *http.Request, _ *hang) bool {
		w.Header().Set("Vary", "Accept-Encoding, X-Part")
		w.Header().Set("X-Sees", r.Header.Get("Accept-Encoding")+"/"+r.Header.Get("X-Part"))
		return false
	},
	"/varystar": func(w http.ResponseWriter, _ *http.Request, _ *hang) bool {
		w.Header().Set("Vary", "*")
		return false
	},
	"/moved": func(w http.ResponseWriter, _ *http.Request, _ *hang) bool {
		w.Header().Set("Location", "/plain")
		return false
	},
	"/nocontent": func(w http.ResponseWriter, _ *http.Request, _ *hang) bool {
		w.WriteHeader(http.StatusNoContent)
		return true
	},
	"/nocache": func(w http.ResponseWriter, _ *http.Request, _ *hang) bool {
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("Etag", `"n"`)
		return false
	},
	"/private": func(w http.ResponseWriter, _ *http.Request, _ *hang) bool {
		w.Header().Set("Cache-Control", "private, max-age=60")
		return false
	},
	"/untyped": func(w http.ResponseWriter, _ *http.Request, _ *hang) bool {
		w.Header()["Content-Type"] = nil
		return false
	},
	"/layers": func(w http.ResponseWriter, _ *http.Request, _ *hang) bool {
		w.Header()["Cache-Status"] = []string{"inner; hit", "outer; fwd=miss"}
		w.Header().Set("Age", "5")
		w.Header().Set("Via", "1.1 inner")
		w.Header().Set("Agenda", "x")
		w.Header().Set("Content-Location", "/elsewhere")
		return false
	},
	"/stale": func(w http.ResponseWriter, r *http.Request, stuck *hang) bool {
		w.Header().Set("Cache-Control", "max-age=50, stale-while-revalidate=864000")
		w.Header().Set("Age", "100")
		w.Header().Set("Etag", `"s"`)
		// The refresh of a stale record hangs; what a client asked for is answered.
		if r.Method == http.MethodGet && r.Header.Get("If-None-Match") == `"s"` && r.Header.Get("Cache-Control")+r.Header.Get("Authorization") == "" {
			stuck.wait(r)
		}
		return false
	},
}

func newBothPaths(t testing.TB) *bothPaths {
	t.Helper()
	tw := &bothPaths{}
	for i := range tw.servers {
		store, err := memory.New(memory.Options{Max: 64 << 20})
		if err != nil {
			t.Fatal(err)
		}
		tw.events[i] = &eventLog{}
		c, err := cache.New(cache.Config{
			Store: store, Rules: differentialRules, Observer: tw.events[i], Fill: cache.FillConfig{Tenure: time.Hour, Wait: 20 * time.Millisecond},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			_ = c.Close(ctx)
		})
		o := Options{}
		if i == 0 {
			o.Hits = c
		}
		tw.caches[i], tw.hangs[i].over = c, make(chan struct{})
		tw.servers[i] = start(t, o, c.Handler(differentialOrigin(&tw.hangs[i])))
		t.Cleanup(func() { close(tw.hangs[i].over) })
	}
	return tw
}

// passing are the parts of an answer that follow the clock.
var passing = regexp.MustCompile(`(?m)(^Age: |; ttl=|^Date: )[^;\r\n]*`)

func still(answer []byte) string { return passing.ReplaceAllString(string(answer), "$1…") }

// lastRequest makes a server that is still listening close the connection. A client that closed its side first would cancel the
// request under way, sooner or later.
const lastRequest = "GET /plain HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"

// ask sends the same bytes and lastRequest to both and returns what came back, without what follows the clock.
func (tw *bothPaths) ask(t testing.TB, request []byte) (with, without string) {
	t.Helper()
	var got [2]string
	for i, s := range tw.servers {
		c, err := net.Dial("tcp", s.Addrs()[0].String())
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(patience))
		_, _ = c.Write(append(bytes.Clone(request), lastRequest...)) // a refusal may come before all is written
		b, err := readSettled(c.(*net.TCPConn))
		if err != nil && len(b) == 0 {
			b = []byte("reset")
		}
		_ = c.Close()
		tw.settle(t, i)
		got[i] = still(b)
	}
	return got[0], got[1]
}

// settle waits until no fill runs but those that hang: a condition that fails, for one, is answered before what it is about is stored.
func (tw *bothPaths) settle(t testing.TB, i int) {
	t.Helper()
	for until := time.Now().Add(patience); tw.caches[i].Stats().Fills > int(tw.hangs[i].held.Load()); time.Sleep(10 * time.Microsecond) {
		if time.Now().After(until) {
			t.Fatalf("%d fills still run, %d of them hang", tw.caches[i].Stats().Fills, tw.hangs[i].held.Load())
		}
	}
}

// prime stores the answer to a request, and starts its refresh if it is stale.
func (tw *bothPaths) prime(t testing.TB, request string) {
	t.Helper()
	tw.ask(t, []byte(request))
	tw.ask(t, []byte(request))
}

// readSettled reads to the end. A server that waits for more of a request than was sent hears after a while that nothing comes.
func readSettled(c *net.TCPConn) (all []byte, err error) {
	buf := make([]byte, 64<<10)
	for over := false; ; {
		if !over {
			_ = c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		}
		n, err := c.Read(buf)
		all = append(all, buf[:n]...)
		switch {
		case err == io.EOF:
			return all, nil
		case err != nil && !over && errors.Is(err, os.ErrDeadlineExceeded):
			over = true
			_ = c.CloseWrite()
			_ = c.SetReadDeadline(time.Now().Add(patience))
		case err != nil:
			return all, err
		}
	}
}

// generate makes a request that a client might send, or might not.
func generate(r *rand.Rand) string {
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	target := pick("", "", "", "/keyed", "/deaf") + pick(differentialPaths...) + pick("", "", "", "?", "?a=1", "?b=2&a=1", "?a=1&b=2", "?utm_x=1", "?a?b")
	b := pickRarely(r, "GET", "HEAD", "HEAD", "POST", "get") + " " + target + " HTTP/1.1\r\n"
	b += pickRarely(r, "Host: a.test\r\n", "host: A.TEST:80\r\n", "Host: b.test\r\n", "")
	for range r.IntN(2) * r.IntN(5) { // the more fields, the more there is against the hit path
		b += pick(differentialFields...) + "\r\n"
	}
	return b + "\r\n"
}

// pickRarely picks the usual thing nine times of ten.
func pickRarely(r *rand.Rand, usual string, others ...string) string {
	if r.IntN(10) > 0 {
		return usual
	}
	return others[r.IntN(len(others))]
}

var differentialPaths = []string{
	"/plain", "/tag", "/weak", "/oddtag", "/dated", "/vary", "/missing", "/moved", "/nocontent", "/nocache", "/private", "/untyped", "/layers",
	"/stale", "/big", "/empty", "/varystar", "/pass", "/./plain", "/x/../plain", "//plain", "/pl%61in", "/a%2Fb", "/plain;x=1", "/(odd)'!*,=@$~:&+",
}

var differentialFields = []string{
	"Accept: */*", "User-Agent: tester", "Accept-Encoding: gzip", "Accept-Encoding: br, gzip", "accept-encoding: GZIP;q=1.0", "X-Part: one",
	"X-Part: two", "x-part:  one ", "Cookie: part=1; other=2", "Cookie: other=2", "Authorization: Bearer x",
	`If-None-Match: "v1"`, `If-None-Match: W/"v1"`, `If-None-Match: "v0", "v1"`, `If-None-Match: *`, `If-None-Match: v 1`, `If-None-Match: "s"`,
	"If-Modified-Since: " + modified, "If-Modified-Since: " + httpDate(modifiedAt.Add(time.Hour)), "If-Modified-Since: yesterday",
	`If-Match: "v1"`, `If-Match: "v0"`, "If-Unmodified-Since: " + httpDate(modifiedAt.Add(-24*time.Hour)), "Range: bytes=0-3", "Range: bytes=1-2,4-5",
	"Cache-Control: no-cache", "Cache-Control: max-age=0", "Cache-Control: max-stale", "Cache-Control: only-if-cached", "Cache-Control: min-fresh=5",
	"Pragma: no-cache", "Connection: keep-alive", "Connection: X-Part", "Content-Length: 0", "TE: trailers",
	"X-Forwarded-Proto: https", "Expect: 100-continue", "X-Obs: \x80", "Keep-Alive: timeout=5",
}

// Thousands of requests, many at a time on one connection, get the same bytes and are reported alike with and without the hit path.
func TestBothPathsAgree(t *testing.T) {
	tw := newBothPaths(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	rounds := 600
	if raced {
		rounds = 200
	}
	for _, path := range differentialPaths { // what is stored is stored by a plain request
		tw.ask(t, []byte("GET "+path+" HTTP/1.1\r\nHost: a.test\r\n\r\n"))
	}
	for i := range rounds {
		var request strings.Builder
		for range 1 + r.IntN(2)*r.IntN(4) { // behind one for the ordinary path the others take it, too
			request.WriteString(generate(r))
		}
		with, without := tw.ask(t, []byte(request.String()))
		if with != without {
			t.Fatalf("round %d, seed %d:\n%s\nwith the hit path:\n%.2000s\nwithout:\n%.2000s", i, seed, request.String(), with, without)
		}
	}
	tw.compareEvents(t, seed)
	// A fifth of the rounds is usual; half of that can come from a seed alone, which may invalidate early what is asked for most.
	if n := tw.servers[0].Stats().Hits; n < int64(rounds/20) {
		t.Errorf("only %d hits: the test compares too little", n)
	}
}

// compareEvents checks that both caches reported the same requests in the same order: one client at a time makes it definite.
func (tw *bothPaths) compareEvents(t *testing.T, seed uint64) {
	t.Helper()
	want := tw.events[1].take(0)
	got := tw.events[0].take(len(want))
	if len(got) != len(want) {
		t.Errorf("seed %d: %d events with the hit path, %d without", seed, len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("seed %d: event %d is\n%s\nand without the hit path\n%s", seed, i, got[i], want[i])
		}
	}
}

// FuzzPaths throws anything at both.
func FuzzPaths(f *testing.F) {
	for _, seed := range []string{
		"GET /plain HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET /plain HTTP/1.1\r\nHost: a.test\r\n\r\nGET /tag HTTP/1.1\r\nHost: a.test\r\nIf-None-Match: \"v1\"\r\n\r\n",
		"POST /plain HTTP/1.1\r\nHost: a.test\r\nContent-Length: 40\r\n\r\nGET /tag HTTP/1.1\r\nHost: a.test\r\n\r\nGET /tag HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET /plain HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /tag HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET /plain HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"GET /plain HTTP/1.1\nHost: a.test\n\n", "GET /plain HTTP/1.1\r\nHost: a.test\r\n folded\r\n\r\n", "\r\n\r\nGET /plain HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET /plain HTTP/1.1\r\nHost: a.test\r\nX: " + strings.Repeat("y", 5000) + "\r\n\r\n",
		"HEAD /big HTTP/1.1\r\nHost: a.test\r\n\r\nGET /big HTTP/1.1\r\nHost: a.test\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	tw := newBothPaths(f)
	f.Fuzz(func(t *testing.T, request []byte) {
		var with, without string
		// An input that breaks off may or may not have stored something when it did, which shows in the next answer but not in the one after.
		for range 3 {
			if with, without = tw.ask(t, request); with == without {
				return
			}
		}
		t.Errorf("%q:\nwith the hit path:\n%.2000q\nwithout:\n%.2000q", request, with, without)
	})
}

// A hit allocates nothing, from the bytes of its request to those of its answer.
func TestHitAllocations(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates")
	}
	tw := newBothPaths(t)
	for name, request := range map[string]string{
		"plain":   "GET /plain HTTP/1.1\r\nHost: a.test\r\nAccept: */*\r\nUser-Agent: x\r\nAccept-Encoding: gzip\r\nConnection: keep-alive\r\n\r\n",
		"head":    "HEAD /plain HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"large":   "GET /big HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"vary":    "GET /vary HTTP/1.1\r\nHost: a.test\r\nAccept-Encoding: gzip, br\r\n\r\n",
		"304":     "GET /tag HTTP/1.1\r\nHost: a.test\r\nIf-None-Match: \"v1\"\r\n\r\n",
		"by date": "GET /dated HTTP/1.1\r\nHost: a.test\r\nIf-Modified-Since: " + modified + "\r\n\r\n",
		"stale":   "GET /stale HTTP/1.1\r\nHost: a.test\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			tw.prime(t, request)
			tw.events[0].take(0)
			source := tw.servers[0].o.Hits
			sc := new(hitScratch)
			run := func() {
				sc.req.At, sc.answer.Head = time.Now(), sc.answer.Head[:0]
				if sc.parse([]byte(request)) == 0 || !source.Hit(&sc.req, &sc.answer) {
					t.Fatal("no hit")
				}
			}
			run()
			if n := testing.AllocsPerRun(200, run); n > 1 { // the copy of the request
				t.Errorf("%v allocations, want none", n-1)
			}
			if !bytes.HasPrefix(sc.answer.Head, []byte("HTTP/1.1 ")) {
				t.Errorf("%q", sc.answer.Head)
			}
		})
	}
}

func BenchmarkHit(b *testing.B) {
	tw := newBothPaths(b)
	source := tw.servers[0].o.Hits
	for _, bc := range []struct{ name, request string }{
		{"plain", "GET /plain HTTP/1.1\r\nHost: a.test\r\n\r\n"},
		{"browser", "GET /plain HTTP/1.1\r\nHost: a.test\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n" +
			"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-US,en;q=0.5\r\n" +
			"Accept-Encoding: gzip, deflate, br, zstd\r\nConnection: keep-alive\r\nUpgrade-Insecure-Requests: 1\r\n" +
			"Sec-Fetch-Dest: document\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Site: none\r\nPriority: u=0, i\r\n\r\n"},
		{"vary", "GET /vary HTTP/1.1\r\nHost: a.test\r\nAccept-Encoding: gzip, br\r\n\r\n"},
		{"304", "GET /tag HTTP/1.1\r\nHost: a.test\r\nIf-None-Match: \"v1\"\r\n\r\n"},
		{"stale", "GET /stale HTTP/1.1\r\nHost: a.test\r\n\r\n"},
	} {
		tw.prime(b, bc.request)
		b.Run(bc.name, func(b *testing.B) {
			sc, head, now := new(hitScratch), []byte(bc.request), time.Now()
			b.ReportAllocs()
			for b.Loop() {
				sc.req.At, sc.answer.Head = now, sc.answer.Head[:0]
				if sc.parse(head) == 0 || !source.Hit(&sc.req, &sc.answer) {
					b.Fatal("no hit")
				}
			}
		})
	}
}
