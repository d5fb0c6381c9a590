package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Promise: an operator can see what is stored and why, purge it, and trust that it stays purged.

// purged is the answer of a purge.
type purged struct {
	Records    int            `json:"records"`
	Tiers      map[string]int `json:"tiers"`
	Keys       []string       `json:"keys"`
	Refreshing int            `json:"refreshing"`
}

func (p *proxy) purgeAnswer(body string) purged {
	p.t.Helper()
	var ans purged
	p.decode(p.admin("POST", "/v1/purge", body), &ans)
	return ans
}

func (p *proxy) decode(text string, into any) {
	p.t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		p.t.Fatalf("%v in %s", err, clip(text))
	}
}

// recorded is the answer about a record.
type recorded struct {
	Use    string
	Why    struct{ Reason, Section string }
	Record *struct {
		Status, Bytes, Variants int
		Tags                    []string
		Fields                  http.Header
	}
	NotStored *struct{ Reason, Section string } `json:"not_stored"`
	Fill      *struct {
		Background bool
		Readers    int
	}
}

func (p *proxy) record(path string, fields ...string) recorded {
	p.t.Helper()
	q := url.Values{"url": {pageURL(path)}, "header": fields}
	var ans recorded
	p.decode(p.admin("GET", "/v1/records?"+q.Encode(), ""), &ans)
	return ans
}

func onDisk(t *testing.T, o *origin) conf {
	t.Helper()
	return conf{Origin: o.url, Extra: "disk: { path: '" + t.TempDir() + "/store', max: 64MiB }\n"}
}

func TestPurgeCountsByTierAndNamesKeys(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).onAny(page("Cache-Control: max-age=600", "Vary: Accept-Language"))
	p := start(t, onDisk(t, o))
	for _, lang := range []string{"de", "fr"} {
		p.get("/dir/a?q=1", "Accept-Language: "+lang)
	}
	p.get("/dir/b")
	p.get("/other")
	dir := fmt.Sprintf(`{"prefix":%q}`, pageURL("/dir/"))
	dry := p.purgeAnswer(strings.Replace(dir, "}", `,"dry_run":true}`, 1))
	for _, got := range []purged{dry, p.purgeAnswer(dir)} {
		if got.Records != 3 || !maps.Equal(got.Tiers, map[string]int{"memory": 3, "disk": 3}) || len(got.Keys) != 3 {
			t.Errorf("%+v, want 3 records in each tier", got)
		}
	}
	if got := p.purgeAnswer(`{"all":true}`); got.Records != 1 || !strings.Contains(got.Keys[0], pageURL("/other")) {
		t.Errorf("%+v, want the one that is left", got)
	}
}

func TestPurgeWithRefreshFillsAgain(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).onAny(page("Cache-Control: max-age=600", "Surrogate-Key: t"))
	p := before(t, o)
	var paths []string
	for i := range 40 {
		path := fmt.Sprint("/r", i)
		paths = append(paths, path)
		p.prime(path)
	}
	if got := p.purgeAnswer(`{"tags":["t"],"refresh":true}`); got.Records != 40 || got.Refreshing != 40 {
		t.Errorf("%+v", got)
	}
	for _, path := range paths {
		o.await(path, 2)
	}
	if !eventually(func() bool {
		return !slices.ContainsFunc(paths, func(path string) bool { return p.record(path).Use != "fresh" })
	}) {
		t.Error("not all are stored again")
	}
	for _, path := range paths {
		p.get(path).want(t, http.StatusOK, version(2, path))
		o.wantCalls(path, 2)
	}
}

func TestRecordsTellWhatAReaderWouldGet(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	o := newOrigin(t).
		on("/kept", page("Cache-Control: max-age=600", "Surrogate-Key: t1 t2", "Vary: Accept-Language")).
		on("/private", page("Cache-Control: private, max-age=60")).
		on("/slow", g.hold(page("Cache-Control: max-age=60")))
	p := before(t, o)
	p.get("/kept", "Accept-Language: de")
	r := p.record("/kept", "Accept-Language: de")
	if r.Use != "fresh" || r.Why.Section != "RFC 9111 §4.2" || r.Record == nil || r.Record.Status != 200 || r.Record.Variants != 1 || !slices.Equal(r.Record.Tags, []string{"t1", "t2"}) {
		t.Errorf("stored: %+v %+v", r, r.Record)
	}
	if r := p.record("/kept", "Accept-Language: fr"); r.Use != "must-wait" || r.Why.Reason != "vary-miss" || r.Record != nil {
		t.Errorf("other variant: %+v", r)
	}
	p.get("/private")
	if r := p.record("/private"); r.Record != nil || r.NotStored == nil || r.NotStored.Reason != "private" || r.NotStored.Section != "RFC 9111 §5.2.2.7" {
		t.Errorf("private: %+v, not stored %+v", r, r.NotStored)
	}
	reader := background(t, p, 1, request("GET", "/slow"))
	o.await("/slow", 1)
	if r := p.record("/slow"); r.Fill == nil || r.Fill.Background || r.Fill.Readers != 1 {
		t.Errorf("being filled: %+v, fill %+v", r, r.Fill)
	}
	g.open()
	reader()
	o.wantCalls("/kept", 1)
}

func TestForcedRefresh(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/f", page("Cache-Control: max-age=600")).on("/down", answer(http.StatusServiceUnavailable, "down"))
	p := before(t, o)
	p.prime("/f")
	if text := p.admin("POST", "/v1/refresh", fmt.Sprintf(`{"url":%q}`, pageURL("/f"))); !strings.Contains(text, `"outcome":"stored"`) {
		t.Errorf("answer %s", text)
	}
	r := p.get("/f")
	r.want(t, http.StatusOK, version(2, "/f"))
	r.wantHit(t, true)
	if text := p.admin("POST", "/v1/refresh", fmt.Sprintf(`{"url":%q}`, pageURL("/down"))); !strings.Contains(text, `"outcome":"not-stored"`) {
		t.Errorf("answer %s", text)
	}
	o.stop()
	if status, text := p.adminStatus("POST", "/v1/refresh", fmt.Sprintf(`{"url":%q}`, pageURL("/f"))); status != http.StatusBadGateway {
		t.Errorf("origin gone: %d %s", status, text)
	}
	p.get("/f").want(t, http.StatusOK, version(2, "/f"))
}

func TestStatsCountTiers(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).onAny(page("Cache-Control: max-age=600"))
	p := start(t, onDisk(t, o))
	p.prime("/a")
	p.purge(map[string]any{"tags": []string{"none"}}) // it waits for the disk
	var stats struct {
		Tiers map[string]struct {
			Records, Bytes int64
			MaxBytes       int64 `json:"max_bytes"`
		}
	}
	p.decode(p.admin("GET", "/v1/stats", ""), &stats)
	for _, tier := range []string{"memory", "disk"} {
		if s := stats.Tiers[tier]; s.Records != 1 || s.Bytes == 0 || s.MaxBytes != 64<<20 {
			t.Errorf("%s: %+v", tier, s)
		}
	}
}

// The command line finds the proxy by its settings and does the same.
func TestCommandLineAsksTheProxy(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/c", page("Cache-Control: max-age=600"))
	p := before(t, o)
	p.prime("/c")
	for _, c := range []struct {
		args []string
		says []string
	}{
		{[]string{"explain", pageURL("/c")}, []string{"served from the cache", "fresh [RFC 9111 §4.2]", "fresh until", "stale until", "filled by    nobody now"}},
		{[]string{"purge", "--url", pageURL("/c"), "--dry-run"}, []string{"1 record would be reached (memory 1)"}},
		{[]string{"purge", "--url", pageURL("/c")}, []string{"1 record purged (memory 1)", pageURL("/c")}},
		{[]string{"explain", pageURL("/c")}, []string{"waits for the origin", "key-miss [RFC 9111 §2]", "stored       no"}},
	} {
		code, out, errs := command(t, append(c.args, "--admin", p.AdminURL())...)
		if code != 0 {
			t.Errorf("%v: exit status %d: %s", c.args, code, errs)
		}
		for _, want := range c.says {
			if !strings.Contains(out, want) {
				t.Errorf("%v: no %q in:\n%s", c.args, want, out)
			}
		}
	}
	code, _, errs := command(t, "purge", "--tag", "a", "--all", "--admin", p.AdminURL())
	if code != 1 || !strings.Contains(errs, "tags, all: more than one says what to purge") {
		t.Errorf("two selectors: exit status %d: %s", code, errs)
	}
}

func TestPurgeMethodForAllowedPeers(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/m", page("Cache-Control: max-age=600"))
	p := start(t, conf{Origin: o.url, Extra: "purge: { allow: [127.0.0.1] }\n"})
	p.prime("/m")
	if r := p.do("PURGE", "/m", "X-Forwarded-For: 192.0.2.1"); r.Status != http.StatusMethodNotAllowed || r.Header.Get("Allow") == "" {
		t.Errorf("through a proxy: status %d, Allow %q", r.Status, r.Header.Get("Allow"))
	}
	p.prime("/m")
	if r := p.do("PURGE", "/m"); r.Status != http.StatusOK || !strings.Contains(r.Body, `"records":1`) {
		t.Errorf("status %d, body %s", r.Status, clip(r.Body))
	}
	p.get("/m").want(t, http.StatusOK, version(2, "/m"))
	o.wantCalls("/m", 2)
}

// A purge that was answered outlives a kill -9: in whatever way it was asked for, small bodies and large, memory and disk, and although
// writes keep coming.
func TestPurgeOutlivesAKill(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("large ", 50_000)
	const cc = "Cache-Control: max-age=600, stale-if-error=600"
	for name, selection := range map[string]string{
		"url": fmt.Sprintf(`{"url":%q}`, pageURL("/gone/a")), "tag": `{"tags":["gone"]}`, "prefix": fmt.Sprintf(`{"prefix":%q}`, pageURL("/gone/")),
		"glob": `{"glob":"*/gone/*"}`,
	} {
		for _, loaded := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, loaded %v", name, loaded), func(t *testing.T) {
				t.Parallel()
				o := newOrigin(t).on("/gone/a", answer(200, large, cc, "Surrogate-Key: gone")).on("/kept", page(cc)).onAny(page(cc))
				c := onDisk(t, o)
				p := start(t, c)
				p.mayFail = true
				p.get("/gone/a").want(t, http.StatusOK, large)
				p.prime("/kept")
				p.purge(map[string]any{"tags": []string{"none"}}) // now all is on disk
				stop := func() {}
				if loaded {
					stop = p.load(t)
				}
				if got := p.purgeAnswer(selection); got.Records != 1 || got.Tiers["disk"] != 1 {
					t.Errorf("%+v", got)
				}
				p.Kill()
				stop()
				o.stop()
				again := start(t, c)
				again.get("/kept").want(t, http.StatusOK, version(1, "/kept"))
				if r := again.get("/gone/a"); r.Status < 500 {
					t.Errorf("status %d, %d bytes came back", r.Status, len(r.Body))
				}
			})
		}
	}
}

// load lets clients ask for ever new pages until the returned function is called.
func (p *proxy) load(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var next atomic.Int64
	for range 2 {
		clients.Go(func() {
			c := &http.Client{Transport: &http.Transport{}}
			defer c.CloseIdleConnections()
			for ctx.Err() == nil {
				r, err := http.NewRequestWithContext(ctx, "GET", fmt.Sprint(p.URL(), "/load/", next.Add(1)), nil)
				if err != nil {
					return
				}
				resp, err := c.Do(r)
				if err != nil {
					return // killed
				}
				_ = resp.Body.Close()
			}
		})
	}
	if !eventually(func() bool { return next.Load() > 50 }) {
		t.Error("no load")
	}
	return func() { cancel(); clients.Wait() }
}

// A soft purge that was answered outlives a kill -9 as well: what it made stale is not fresh again.
func TestSoftPurgeOutlivesAKill(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/s", page("Cache-Control: max-age=600, stale-while-revalidate=600", "Surrogate-Key: t"))
	c := onDisk(t, o)
	p := start(t, c)
	p.mayFail = true
	p.prime("/s")
	p.purgeAnswer(`{"tags":["t"],"soft":true}`)
	p.Kill()
	again := start(t, c)
	if r := again.record("/s"); r.Use != "stale-while-revalidate" {
		t.Errorf("after the restart: %+v", r)
	}
	again.get("/s").want(t, http.StatusOK, version(1, "/s"))
	again.awaitBody("/s", version(2, "/s"))
}

// A purge under a steady load of writes ends: it waits for what came before it, not for what keeps coming.
func TestPurgeEndsUnderWrites(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).onAny(page("Cache-Control: max-age=600"))
	p := start(t, onDisk(t, o))
	stop := p.load(t)
	defer stop()
	for range 5 {
		began := time.Now()
		p.purgeAnswer(`{"tags":["none"]}`)
		if took := time.Since(began); took > within(time.Second) {
			t.Errorf("took %v", took)
		}
	}
}
