package integration

import (
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Promise: ranges, HEAD and conditional requests are answered from the record as the origin would have.

const digits = "0123456789"

// RNG-04 (RFC 9110 §14.1.2, §14.2, §13.1.5, §15.5.17).
func TestRangesOfAStoredBody(t *testing.T) {
	t.Parallel()
	lm := time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)
	o := newOrigin(t).on("/ten", answer(200, digits, "Cache-Control: max-age=60", `ETag: "a"`, "Last-Modified: "+lm))
	p := before(t, o)
	p.get("/ten").want(t, http.StatusOK, digits)
	cases := []struct {
		name, rng, ifRange string
		status             int
		body, contentRange string
	}{
		{"first byte", "bytes=0-0", "", 206, "0", "bytes 0-0/10"},
		{"last byte", "bytes=-1", "", 206, "9", "bytes 9-9/10"},
		{"open at the last", "bytes=9-", "", 206, "9", "bytes 9-9/10"},
		{"end beyond the end", "bytes=5-100", "", 206, "56789", "bytes 5-9/10"},
		{"start beyond the end", "bytes=10-", "", 416, "*", "bytes */10"},
		{"empty suffix", "bytes=-0", "", 416, "*", "bytes */10"},
		{"backwards", "bytes=9-0", "", 200, digits, ""},
		{"unknown unit", "chars=0-1", "", 200, digits, ""},
		{"If-Range strong match", "bytes=0-1", `"a"`, 206, "01", "bytes 0-1/10"},
		{"If-Range weak", "bytes=0-1", `W/"a"`, 200, digits, ""},
		{"If-Range other", "bytes=0-1", `"b"`, 200, digits, ""},
		{"If-Range date match", "bytes=0-1", lm, 206, "01", "bytes 0-1/10"},
	}
	for _, c := range cases {
		fields := []string{"Range: " + c.rng}
		if c.ifRange != "" {
			fields = append(fields, "If-Range: "+c.ifRange)
		}
		r := p.get("/ten", fields...)
		if r.Status != c.status || (c.body != "*" && r.Body != c.body) || r.Header.Get("Content-Range") != c.contentRange {
			t.Errorf("%s: status %d, body %q, Content-Range %q; want %d, %q, %q",
				c.name, r.Status, r.Body, r.Header.Get("Content-Range"), c.status, c.body, c.contentRange)
		}
	}
	o.wantCalls("/ten", 1)
}

// RFC 9110 §14.6, §15.3.7.2: several ranges are parts of one answer, each with its place; ranges close to each other may come as one.
func TestSeveralRangesOfAStoredBody(t *testing.T) {
	t.Parallel()
	body := strings.Repeat(digits, 1000)
	o := newOrigin(t).on("/many", answer(200, body, "Cache-Control: max-age=60", "Content-Type: text/plain"))
	p := before(t, o)
	p.get("/many").want(t, http.StatusOK, body)
	if !eventually(func() bool { return p.get("/many").hit() }) { // a body that is still arriving is sent whole
		t.Fatal("the body is not stored")
	}
	r := p.get("/many", "Range: bytes=0-1,5000-5003,-3")
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if r.Status != 206 || err != nil || params["boundary"] == "" {
		t.Fatalf("status %d, type %q, %v", r.Status, r.Header.Get("Content-Type"), err)
	}
	parts := multipart.NewReader(strings.NewReader(r.Body), params["boundary"])
	for _, want := range []struct{ place, text string }{
		{"bytes 0-1/10000", "01"}, {"bytes 5000-5003/10000", "0123"}, {"bytes 9997-9999/10000", "789"},
	} {
		part, err := parts.NextPart()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(part)
		if err != nil || part.Header.Get("Content-Range") != want.place || string(text) != want.text ||
			part.Header.Get("Content-Type") != "text/plain" {
			t.Errorf("part %v, text %q, %v; want %q, %q", part.Header, text, err, want.place, want.text)
		}
	}
	if _, err := parts.NextPart(); err != io.EOF {
		t.Errorf("after the last part: %v", err)
	}
	// A request that asks for everything many times over is not worth more than the whole (RFC 9110 §14.2).
	greedy := p.get("/many", "Range: bytes=0-"+strings.Repeat(",0-", 500))
	if len(greedy.Body) > 2*len(body) {
		t.Errorf("%d bytes for %d overlapping ranges of %d bytes", len(greedy.Body), 501, len(body))
	}
	o.wantCalls("/many", 1)
}

// ranged is an origin that honours single ranges itself.
func ranged(body string) step {
	return func(w http.ResponseWriter, r *http.Request, _ int) {
		w.Header().Set("Cache-Control", "max-age=60")
		w.Header().Set("ETag", `"whole"`)
		http.ServeContent(w, r, "body.txt", time.Time{}, strings.NewReader(body))
	}
}

// RNG-01: a part is never taken for the whole.
func TestAPartIsNotTakenForTheWhole(t *testing.T) {
	t.Parallel()
	body := strings.Repeat(digits, 100)
	o := newOrigin(t).on("/p", ranged(body))
	p := before(t, o)
	if r := p.get("/p", "Range: bytes=0-99"); r.Status != 206 || r.Body != body[:100] {
		t.Errorf("first range: status %d, %d bytes", r.Status, len(r.Body))
	}
	p.get("/p").want(t, http.StatusOK, body)
	if r := p.get("/p", "Range: bytes=900-"); r.Status != 206 || r.Body != body[900:] || r.Header.Get("Content-Range") != "bytes 900-999/1000" {
		t.Errorf("last range: status %d, %d bytes, %q", r.Status, len(r.Body), r.Header.Get("Content-Range"))
	}
}

// RNG-07: a satisfiable range on a miss is never refused, not even when the length is not known yet.
func TestRangeOnAMissOfUnknownLength(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/grow", trickle(5, 50*time.Millisecond, "Cache-Control: max-age=60"))
	p := before(t, o)
	r := p.get("/grow", "Range: bytes=7-13")
	switch {
	case r.Status == 200 && r.Body == trickled(5):
	case r.Status == 206 && r.Body == line(1):
	default:
		t.Errorf("status %d, body %q, %v", r.Status, r.Body, r.Err)
	}
}

// RNG-05: clients that only ask for ranges do not have the whole fetched each time.
func TestManyRangesCauseFewFetches(t *testing.T) {
	t.Parallel()
	body := strings.Repeat(digits, 1000)
	o := newOrigin(t).on("/r", ranged(body))
	p := before(t, o)
	for range 50 {
		if r := p.get("/r", "Range: bytes=0-1023"); r.Status != 206 || r.Body != body[:1024] {
			t.Fatalf("status %d, %d bytes, %v", r.Status, len(r.Body), r.Err)
		}
	}
	if n := o.count("/r"); n > 2 {
		t.Errorf("origin saw %d requests for one range of one body", n)
	}
}

// HED-01, HED-03 (RFC 9110 §9.3.2).
func TestHeadAndGet(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/h", page("Cache-Control: max-age=60", "X-Field: 1"))
	p := before(t, o)
	if r := p.do("HEAD", "/h"); r.Status != 200 || r.Body != "" || r.Header.Get("X-Field") != "1" {
		t.Errorf("cold HEAD: %d, %q, %v", r.Status, r.Body, r.Header)
	}
	get := p.get("/h")
	if get.Status != 200 || !strings.HasSuffix(get.Body, " of /h") {
		t.Errorf("GET after HEAD: %d, %q", get.Status, get.Body)
	}
	calls := o.count("/h")
	head := p.do("HEAD", "/h")
	head.wantHit(t, true)
	if head.Body != "" || head.Header.Get("X-Field") != "1" || head.Header.Get("Content-Length") != fmt.Sprint(len(get.Body)) {
		t.Errorf("HEAD from the record: body %q, header %v", head.Body, head.Header)
	}
	o.wantCalls("/h", calls)
}

// CND-01: a client that asked no condition gets the body, whatever the origin answered us (RFC 9110 §15.4.5).
func TestNo304WithoutACondition(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/c", validated(`"a"`, page("Cache-Control: max-age=1, must-revalidate")))
	p := before(t, o)
	p.prime("/c")
	expire()
	p.get("/c").want(t, http.StatusOK, version(1, "/c"))
	if got := o.request("/c", 2).Header.Get("If-None-Match"); got != `"a"` {
		t.Errorf("revalidation has If-None-Match %q", got)
	}
}

// CND-02: a conditional client fills the cache for everybody (RFC 9111 §4.3.2).
func TestConditionalClientOnAColdKey(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/cold", validated(`"a"`, page("Cache-Control: max-age=60")))
	p := before(t, o)
	for range 2 {
		p.get("/cold", `If-None-Match: "a"`).want(t, http.StatusNotModified, "")
	}
	p.get("/cold").want(t, http.StatusOK, version(1, "/cold"))
	o.wantCalls("/cold", 1)
}

// CND-03 (RFC 9110 §13.2.2).
func TestConditionsOnAHit(t *testing.T) {
	t.Parallel()
	lm := time.Now().Add(-2 * time.Hour).UTC()
	at := func(d time.Duration) string { return lm.Add(d).Format(http.TimeFormat) }
	o := newOrigin(t).on("/c", page("Cache-Control: max-age=60", `ETag: "a"`, "Last-Modified: "+at(0)))
	p := before(t, o)
	p.prime("/c")
	cases := []struct {
		name   string
		fields []string
		status int
	}{
		{"IMS same", []string{"If-Modified-Since: " + at(0)}, 304},
		{"IMS later", []string{"If-Modified-Since: " + at(time.Hour)}, 304},
		{"IMS earlier", []string{"If-Modified-Since: " + at(-time.Hour)}, 200},
		{"INM match", []string{`If-None-Match: "a"`}, 304},
		{"INM weak match", []string{`If-None-Match: W/"a"`}, 304},
		{"INM one of a list", []string{`If-None-Match: "x", "a"`}, 304},
		{"INM star", []string{"If-None-Match: *"}, 304},
		{"INM wins over IMS", []string{`If-None-Match: "x"`, "If-Modified-Since: " + at(0)}, 200},
		{"IMS that is no date", []string{"If-Modified-Since: yesterday"}, 200},
	}
	c := dial(t, p.Addr())
	for _, tc := range cases {
		r := c.send(request("GET", "/c", tc.fields...))
		if r.Status != tc.status {
			t.Errorf("%s: status %d, %v, want %d", tc.name, r.Status, r.Err, tc.status)
		}
	}
	o.wantCalls("/c", 1)
}

// CND-05, CND-07 (RFC 9111 §3.2, §4.3.4): a 304 updates what it may and leaves the rest.
func Test304UpdatesTheRecord(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/m", validated(`"a"`, page("Cache-Control: max-age=1", "Content-Type: application/json", "X-Old: 1"),
		"Cache-Control: max-age=60", "X-New: 2", "Content-Encoding: gzip", "Content-Range: bytes 0-1/2"))
	p := before(t, o)
	p.prime("/m")
	expire()
	for range 2 {
		r := p.get("/m")
		r.want(t, http.StatusOK, version(1, "/m"))
		for name, want := range map[string]string{
			"Content-Type": "application/json", "X-Old": "1", "X-New": "2", "Content-Encoding": "", "Content-Range": "",
			"Cache-Control": "max-age=60", "Content-Length": fmt.Sprint(len(version(1, "/m"))),
		} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	}
	o.wantCalls("/m", 2)
}

// CND-11 (RFC 9110 §15.4.5): what a 304 carries, and that the connection goes on after it.
func TestFieldsOfA304(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/f", page("Cache-Control: max-age=60", `ETag: "a"`, "Content-Type: application/json", "Vary: Accept",
		"Content-Location: /f.json"))
	p := before(t, o)
	p.prime("/f")
	c := dial(t, p.Addr())
	for range 2 {
		r := c.send(request("GET", "/f", `If-None-Match: "a"`))
		r.want(t, http.StatusNotModified, "")
		for name, want := range map[string]string{
			"ETag": `"a"`, "Cache-Control": "max-age=60", "Vary": "Accept", "Content-Location": "/f.json", "Content-Length": "",
		} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if r.Header.Get("Date") == "" {
			t.Error("no Date")
		}
		c.send(request("GET", "/f")).want(t, http.StatusOK, version(1, "/f"))
	}
}

// PRG-09 (RFC 9111 §4.4): an unsafe method that succeeds invalidates its target and what it names of the same origin.
func TestUnsafeMethodsInvalidate(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "SPROCKET"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			o := newOrigin(t).onAny(func(w http.ResponseWriter, r *http.Request, n int) {
				if r.Method == "GET" {
					page("Cache-Control: max-age=60")(w, r, n)
					return
				}
				answer(http.StatusOK, "", "Location: /named", "Content-Location: http://"+site+"/also")(w, r, n)
			})
			p := before(t, o)
			for _, path := range []string{"/target", "/named", "/also", "/other"} {
				p.prime(path)
			}
			if r := fetch(t, p.Addr(), request(method, "/target", "Content-Length: 0")); r.Status != 200 {
				t.Fatalf("status %d, %v", r.Status, r.Err)
			}
			p.get("/target").want(t, http.StatusOK, version(3, "/target"))
			p.get("/named").want(t, http.StatusOK, version(2, "/named"))
			p.get("/also").want(t, http.StatusOK, version(2, "/also"))
			p.get("/other").want(t, http.StatusOK, version(1, "/other"))
		})
	}
}

// RFC 9875: a response to an unsafe method may invalidate a group, within its own origin.
func TestCacheGroupsAreInvalidated(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	for _, path := range []string{"/a", "/b"} {
		o.on(path, page("Cache-Control: max-age=60", `Cache-Groups: "news", "x"`))
	}
	o.on("/c", page("Cache-Control: max-age=60", `Cache-Groups: "sport"`))
	o.on("/publish", answer(http.StatusNoContent, "", `Cache-Group-Invalidation: "news"`))
	p := before(t, o)
	for _, path := range []string{"/a", "/b", "/c"} {
		p.prime(path)
	}
	p.get("/a", "Host: other.example.org").want(t, http.StatusOK, version(2, "/a"))
	if r := fetch(t, p.Addr(), request("POST", "/publish", "Content-Length: 0")); r.Status != http.StatusNoContent {
		t.Fatalf("status %d, %v", r.Status, r.Err)
	}
	p.get("/a").want(t, http.StatusOK, version(3, "/a"))
	p.get("/b").want(t, http.StatusOK, version(2, "/b"))
	p.get("/c").want(t, http.StatusOK, version(1, "/c"))
	p.get("/a", "Host: other.example.org").want(t, http.StatusOK, version(2, "/a"))
}

// RFC 9110 §13.1.1, §13.1.4: a condition that fails is answered 412 from the record.
func TestFailedPreconditionsOnAHit(t *testing.T) {
	t.Parallel()
	lm := time.Now().Add(-time.Hour).UTC()
	o := newOrigin(t).on("/m", page("Cache-Control: max-age=60", `ETag: "a"`, "Last-Modified: "+lm.Format(http.TimeFormat)))
	p := before(t, o)
	p.prime("/m")
	for field, status := range map[string]int{
		`If-Match: "a"`: 200, `If-Match: "b"`: 412, "If-Match: *": 200, `If-Match: W/"a"`: 412,
		"If-Unmodified-Since: " + lm.Format(http.TimeFormat):                 200,
		"If-Unmodified-Since: " + lm.Add(-time.Hour).Format(http.TimeFormat): 412,
	} {
		if r := p.get("/m", field); r.Status != status {
			t.Errorf("%s: status %d, want %d; Cache-Status %q", field, r.Status, status, r.cacheStatus())
		}
	}
}

// RFC 9111 §5.2.1: what a client asks of the age of its answer.
func TestRequestDirectives(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/d", page("Cache-Control: max-age=3", "Age: 1"))
	p := before(t, o)
	p.prime("/d")
	p.get("/d", "Cache-Control: max-age=2").want(t, http.StatusOK, version(1, "/d"))
	p.get("/d", "Cache-Control: min-fresh=60").want(t, http.StatusOK, version(2, "/d"))
	p.get("/d", "Cache-Control: no-cache").want(t, http.StatusOK, version(3, "/d"))
	p.get("/d", "Pragma: no-cache").want(t, http.StatusOK, version(4, "/d"))
	p.get("/d", "Cache-Control: max-age=0").want(t, http.StatusOK, version(5, "/d"))
	p.get("/d").want(t, http.StatusOK, version(5, "/d"))
	g := newGate(t)
	o.on("/d", g.hold(page("Cache-Control: max-age=60"))) // whoever is content with a stale answer has it refreshed for the others
	time.Sleep(2200 * time.Millisecond)
	p.get("/d", "Cache-Control: max-stale=60").want(t, http.StatusOK, version(5, "/d"))
	p.get("/d", "Cache-Control: max-stale").want(t, http.StatusOK, version(5, "/d"))
	p.get("/d", "Cache-Control: only-if-cached, max-stale=60").want(t, http.StatusOK, version(5, "/d"))
	g.open()
	p.get("/d").want(t, http.StatusOK, version(6, "/d"))
}

// A rule may ignore what clients ask (RFC 9111 §5.2.1 leaves it to the cache).
func TestRequestDirectivesIgnored(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/d", page("Cache-Control: max-age=60"))
	p := start(t, conf{Origin: o.url, Rules: "  - { origin: app, request_directives: ignore }"})
	p.prime("/d")
	for _, field := range []string{"Cache-Control: no-cache", "Pragma: no-cache", "Cache-Control: max-age=0", "Cache-Control: no-store"} {
		p.get("/d", field).want(t, http.StatusOK, version(1, "/d"))
	}
	o.wantCalls("/d", 1)
}

// AGE-13: forced revalidations of many clients at once are one fetch.
func TestManyForcedRevalidationsAreOneFetch(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	p := before(t, o)
	g := newGate(t)
	o.on("/n", page("Cache-Control: max-age=60"), g.hold(page("Cache-Control: max-age=60")))
	p.prime("/n")
	forced := background(t, p, 30, request("GET", "/n", "Cache-Control: no-cache"))
	o.await("/n", 2)
	p.awaitWaiting(29)
	p.get("/n").want(t, http.StatusOK, version(1, "/n")) // nobody else is held up
	g.open()
	wantAll(t, forced(), http.StatusOK, version(2, "/n"))
	o.wantCalls("/n", 2)
}
