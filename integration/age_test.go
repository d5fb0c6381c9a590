package integration

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Promise: ages and lifetimes are what RFC 9111 §4.2 says, whatever the origin's clock and spelling.

// AGE-01.
func TestBrokenDatesDoNotBreakAges(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC()
	dates := map[string]string{
		"one-digit hour": now.AddDate(0, 0, -1).Format("Mon, 02 Jan 2006") + " 7:19:16 GMT",
		"junk":           "yesterday",
		"an hour ahead":  now.Add(time.Hour).Format(http.TimeFormat),
	}
	o := newOrigin(t)
	p := before(t, o)
	for name, date := range dates {
		path := "/" + strings.ReplaceAll(name, " ", "-")
		o.on(path, page("Cache-Control: max-age=60", "Date: "+date))
		p.prime(path)
		r := p.get(path)
		r.wantHit(t, true)
		if age, err := strconv.Atoi(r.Header.Get("Age")); err != nil || age > 10 {
			t.Errorf("%s: Age %q", name, r.Header.Get("Age"))
		}
	}
	o.on("/behind", page("Cache-Control: max-age=7200", "Date: "+now.Add(-time.Hour).Format(http.TimeFormat)))
	p.prime("/behind")
	if age, _ := strconv.Atoi(p.get("/behind").Header.Get("Age")); age < 3590 || age > 3700 {
		t.Errorf("date an hour behind: Age %d, want about 3600", age)
	}
}

// AGE-03.
func TestUpstreamAgeCounts(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/aged", page("Age: 58", "Cache-Control: max-age=60")).
		on("/huge", page("Age: 8589934592", "Cache-Control: max-age=60"))
	p := before(t, o)
	p.prime("/aged")
	r := p.get("/aged")
	r.wantHit(t, true)
	if age, _ := strconv.Atoi(r.Header.Get("Age")); age < 58 {
		t.Errorf("Age %d, want at least 58", age)
	}
	time.Sleep(2100 * time.Millisecond)
	p.get("/aged").want(t, http.StatusOK, version(2, "/aged"))
	p.prime("/huge")
	p.get("/huge").want(t, http.StatusOK, version(2, "/huge"))
}

// AGE-04, AGE-08: which lifetime counts, in all spellings. hit says whether a second read may be answered from the record.
func TestLifetimesInAllSpellings(t *testing.T) {
	t.Parallel()
	cases := []struct {
		cc  string
		hit bool
	}{
		{"public, max-age=0, s-maxage=15", true},
		{"s-maxage=15, max-age=0", true},
		{"max-age=30, s-maxage=0", false},
		{"MAX-AGE=30", true},
		{`max-age="30"`, true},
		{"max-age=99999999999", true},
		{"max-age=-1", false},
		{"max-age", false},
		{"max-age=0", false},
		{"no-cache, max-age=60", false},
		{"no-store, max-age=60", false},
		{"private=\"x\", max-age=60", true},
	}
	o := newOrigin(t)
	p := before(t, o)
	for i, c := range cases {
		path := fmt.Sprintf("/cc/%d", i)
		o.on(path, page("Cache-Control: "+c.cc))
		p.prime(path)
		if r := p.get(path); r.hit() != c.hit {
			t.Errorf("Cache-Control: %s: second read hit=%v, want %v; Cache-Status %q", c.cc, r.hit(), c.hit, r.cacheStatus())
		}
	}
}

// AGE-06: a 304 starts the lifetime anew, with its own Date or without one.
func TestFreshnessCountsFromTheRevalidation(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/r", validated(`"a"`, page("Cache-Control: max-age=2")))
	p := before(t, o)
	p.prime("/r")
	time.Sleep(2200 * time.Millisecond)
	p.get("/r").want(t, http.StatusOK, version(1, "/r"))
	o.wantCalls("/r", 2)
	time.Sleep(700 * time.Millisecond)
	r := p.get("/r")
	r.want(t, http.StatusOK, version(1, "/r"))
	r.wantHit(t, true)
	o.wantCalls("/r", 2)
}

// AGE-13 (RFC 9111 §5.2.1.7).
func TestOnlyIfCached(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/oic", page("Cache-Control: max-age=60"))
	p := before(t, o)
	if r := p.get("/oic", "Cache-Control: only-if-cached"); r.Status != http.StatusGatewayTimeout {
		t.Errorf("on an empty cache: status %d, want 504", r.Status)
	}
	o.wantCalls("/oic", 0)
	p.prime("/oic")
	p.get("/oic", "Cache-Control: only-if-cached").want(t, http.StatusOK, version(1, "/oic"))
}

// AGE-14 (RFC 9213 §2): a targeted field replaces Cache-Control and Expires; a malformed one is not there.
func TestTargetedFields(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		fields []string
		hit    bool
	}{
		{"no-store for CDNs", []string{"CDN-Cache-Control: no-store", "Cache-Control: max-age=60"}, false},
		{"lifetime for CDNs", []string{"CDN-Cache-Control: max-age=60", "Cache-Control: no-store"}, true},
		{"malformed", []string{"CDN-Cache-Control: max-age=60,,", "Cache-Control: no-store"}, false},
		{"empty", []string{"CDN-Cache-Control:", "Cache-Control: max-age=60"}, true},
		{"Expires does not count beside it", []string{"CDN-Cache-Control: max-age=0", "Expires: " + time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)}, false},
	}
	o := newOrigin(t)
	p := before(t, o)
	for i, c := range cases {
		path := fmt.Sprintf("/t/%d", i)
		o.on(path, page(c.fields...))
		p.prime(path)
		if r := p.get(path); r.hit() != c.hit {
			t.Errorf("%s: hit=%v, want %v; Cache-Status %q", c.name, r.hit(), c.hit, r.cacheStatus())
		}
	}
}

// AGE-15 (RFC 9211 §2.4): a negative ttl only where stale is served, and then it is said why.
func TestCacheStatusTellsTheTruth(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	p := before(t, o)
	g := newGate(t)
	o.on("/s", page("Cache-Control: max-age=1, stale-while-revalidate=60"), g.hold(page("Cache-Control: max-age=60")))
	miss := p.get("/s").cacheStatus()
	if !strings.HasPrefix(miss, "swrproxy;") || !strings.Contains(miss, "fwd=uri-miss") || !strings.Contains(miss, "stored") {
		t.Errorf("miss: %q", miss)
	}
	if hit := p.get("/s").cacheStatus(); !strings.HasPrefix(hit, "swrproxy; hit") || !strings.Contains(hit, "ttl=") || strings.Contains(hit, "ttl=-") {
		t.Errorf("hit: %q", hit)
	}
	expire()
	if stale := p.get("/s").cacheStatus(); !strings.Contains(stale, "hit") || !strings.Contains(stale, "ttl=-") ||
		!strings.Contains(stale, "stale-while-revalidate") {
		t.Errorf("stale: %q", stale)
	}
}

// RFC 9211 §2: our member comes after those of caches behind us.
func TestCacheStatusIsAppended(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/a", page("Cache-Control: max-age=60", "Cache-Status: inner; hit"))
	p := before(t, o)
	for range 2 {
		all := strings.Join(p.get("/a").Header.Values("Cache-Status"), ", ")
		if !strings.HasPrefix(all, "inner; hit, swrproxy;") || strings.Count(all, "swrproxy") != 1 {
			t.Errorf("Cache-Status %q", all)
		}
	}
}
