package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// Promise: what was purged does not come back, in whatever way it is asked for or being fetched.

// purge sends a selection to the admin API.
func (p *proxy) purge(body map[string]any) {
	p.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		p.t.Fatal(err)
	}
	p.admin("POST", "/v1/purge", string(text))
}

func pageURL(path string) string { return "http://" + site + path }

// PRG-01, PRG-05: a hard purge leaves neither a stale copy nor a variant.
func TestPurgeTakesAllOfARecord(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/p", page("Cache-Control: max-age=60, stale-while-revalidate=3600, stale-if-error=3600", "Vary: Accept-Language"))
	p := before(t, o)
	for i, lang := range []string{"de", "en", "fr"} {
		p.get("/p", "Accept-Language: "+lang).want(t, http.StatusOK, version(i+1, "/p"))
	}
	p.purge(map[string]any{"url": pageURL("/p")})
	for i, lang := range []string{"de", "en", "fr"} {
		r := p.get("/p", "Accept-Language: "+lang)
		r.want(t, http.StatusOK, version(i+4, "/p"))
		r.wantHit(t, false)
	}
}

// PRG-02: tags are compared whole.
func TestPurgeByTagIsExact(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	tags := map[string]string{"/a": "a", "/ab": "ab", "/a-b": "a b", "/x": "a/1", "/re": "a.*"}
	for path, tag := range tags {
		o.on(path, page("Cache-Control: max-age=60", "Surrogate-Key: "+tag))
	}
	p := before(t, o)
	for path := range tags {
		p.prime(path)
	}
	p.purge(map[string]any{"tags": []string{"a"}})
	for path, want := range map[string]int{"/a": 2, "/ab": 1, "/a-b": 2, "/x": 1, "/re": 1} {
		p.get(path).want(t, http.StatusOK, version(want, path))
	}
}

// PRG-04: a soft purge makes stale, at once and only that; the refresh runs behind.
func TestSoftPurgeServesStaleOnce(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	p := before(t, o)
	g := newGate(t)
	o.on("/s", page("Cache-Control: max-age=600, stale-while-revalidate=600"), g.hold(page("Cache-Control: max-age=600")))
	p.prime("/s")
	for range 2 {
		p.purge(map[string]any{"url": pageURL("/s"), "soft": true})
		p.get("/s").want(t, http.StatusOK, version(1, "/s"))
	}
	o.await("/s", 2)
	o.wantCalls("/s", 2)
	g.open()
	// The refresh that began before the second purge may not stand for what came after it: one more may be needed.
	if !eventually(func() bool { return p.get("/s").Body != version(1, "/s") }) {
		t.Error("the stale answer is never replaced")
	}
}

// PRG-03: a fetch that began before the purge never brings the old content back.
func TestPurgeDuringAFill(t *testing.T) {
	t.Parallel()
	selections := map[string]map[string]any{
		"url": {"url": pageURL("/k")}, "tag": {"tags": []string{"t1"}}, "prefix": {"prefix": pageURL("/")}, "host": {"host": site}, "all": {"all": true},
	}
	for name, selection := range selections {
		for _, kind := range []string{"cold", "refresh", "304"} {
			for _, tier := range []string{"memory", "disk"} {
				t.Run(name+" "+kind+" "+tier, func(t *testing.T) {
					t.Parallel()
					c := conf{}
					if tier == "disk" {
						c.Extra = "disk: { path: " + t.TempDir() + "/store }\n"
					}
					testPurgeDuringAFill(t, c, kind, selection)
				})
			}
		}
	}
}

func testPurgeDuringAFill(t *testing.T, c conf, kind string, selection map[string]any) {
	const cc = "Cache-Control: max-age=1, stale-while-revalidate=600"
	o := newOrigin(t)
	c.Origin = o.url
	p := start(t, c)
	g := newGate(t)
	old := answer(http.StatusOK, "old", cc, "Surrogate-Key: t1", `ETag: "old"`)
	steps := map[string][]step{
		"cold":    {g.hold(old)},
		"refresh": {old, g.hold(old)},
		"304":     {old, g.hold(validated(`"old"`, old, cc))},
	}[kind]
	o.on("/k", append(steps, answer(http.StatusOK, "new", "Cache-Control: max-age=600"))...)
	if len(steps) > 1 {
		p.get("/k").want(t, http.StatusOK, "old")
		expire()
	}
	reader := background(t, p, 1, request("GET", "/k"))
	o.await("/k", len(steps))
	p.purge(selection)
	g.open()
	reader()
	// Whether the late fill has ended or not: from here on only the new content.
	for range 10 {
		p.get("/k").want(t, http.StatusOK, "new")
		time.Sleep(5 * time.Millisecond)
	}
}

// SWR-21 is the case "304" above; here the readers who waited before the purge get an answer, never an error.
func TestReadersWaitingDuringAPurgeAreAnswered(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	p := before(t, o)
	g := newGate(t)
	o.on("/w", g.hold(page("Cache-Control: max-age=60")), page("Cache-Control: max-age=60"))
	waiting := background(t, p, 20, request("GET", "/w"))
	p.awaitWaiting(19)
	p.purge(map[string]any{"url": pageURL("/w")})
	g.open()
	for _, r := range waiting() {
		if r.Err != nil || r.Status != http.StatusOK {
			t.Errorf("status %d, %v; Cache-Status %q", r.Status, r.Err, r.cacheStatus())
		}
	}
}

// Odd selections are answered, not stumbled over.
func TestOddPurges(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	p := before(t, o)
	many := make([]string, 10000)
	for i := range many {
		many[i] = fmt.Sprintf("tag-%d", i)
	}
	p.purge(map[string]any{"tags": many})
	p.purge(map[string]any{"tags": []string{"unknown"}})
	for _, body := range []string{"", "{}", "null", "[]", `{"url": 1}`, `{"url": "not a url"}`, `{"bogus": true}`, "{"} {
		if status, text := p.adminStatus("POST", "/v1/purge", body); status < 400 || status >= 500 {
			t.Errorf("%q: status %d, %s", body, status, clip(text))
		}
	}
	// On the public listener nobody may purge unless it is set.
	if r := p.do("PURGE", "/x"); r.Status != http.StatusMethodNotAllowed {
		t.Errorf("PURGE on the public listener: status %d, want 405", r.Status)
	}
}
