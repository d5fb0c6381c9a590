package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/policy"
)

// fakeCache answers as a test says and notes what it was asked.
type fakeCache struct {
	purge   func(cache.Selector, cache.PurgeOptions) (cache.PurgeResult, error)
	explain func(*http.Request) (cache.Explanation, error)
	refresh func(context.Context, *http.Request) error

	mu  sync.Mutex // guards following
	sel cache.Selector
	opt cache.PurgeOptions
	req *http.Request
}

func (f *fakeCache) Purge(_ context.Context, sel cache.Selector, opt cache.PurgeOptions) (cache.PurgeResult, error) {
	f.mu.Lock()
	f.sel, f.opt = sel, opt
	f.mu.Unlock()
	if f.purge == nil {
		return cache.PurgeResult{}, nil
	}
	return f.purge(sel, opt)
}

func (f *fakeCache) Explain(r *http.Request) (cache.Explanation, error) {
	f.mu.Lock()
	f.req = r
	f.mu.Unlock()
	if f.explain == nil {
		return cache.Explanation{}, nil
	}
	return f.explain(r)
}

func (f *fakeCache) Refresh(ctx context.Context, r *http.Request) error {
	if f.refresh == nil {
		return nil
	}
	return f.refresh(ctx, r)
}

func (f *fakeCache) Stats() cache.Stats {
	return cache.Stats{Fills: 1, Waiting: 2, Invalidations: 3}
}

// call sends one request to an admin handler with f behind it.
func call(t *testing.T, f *fakeCache, method, target, body string) (int, string) {
	t.Helper()
	a := newAdmin(t, Options{Cache: f})
	r := httptest.NewRequest(method, "http://127.0.0.1"+target, strings.NewReader(body))
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, r)
	if err := a.Close(t.Context()); err != nil {
		t.Error(err)
	}
	return w.Code, w.Body.String()
}

// refusal decodes the body of an error.
func refusal(t *testing.T, body string) ErrorDetail {
	t.Helper()
	var e Error
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return e.Error
}

// "wait": false is answered when the purge is in force, without counts; the cache is told who asked.
func TestPurgeThatIsNotWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		body         string
		pending      bool
		err          error
		noWait       bool
		status       int
		says, unsaid string
	}{
		"counted":     {`{"host":"h"}`, false, nil, false, 200, `"records":3`, "pending"},
		"waited for":  {`{"host":"h","wait":true}`, false, nil, false, 200, `"records":3`, "pending"},
		"in force":    {`{"host":"h","wait":false}`, true, nil, true, 202, `"pending":true`, "tiers"},
		"very long":   {`{"host":"h"}`, false, context.DeadlineExceeded, false, 202, `"pending":true`, "tiers"},
		"by index":    {`{"tags":["a"],"wait":false}`, false, nil, true, 200, `"records":3`, "pending"},
		"no room yet": {`{"host":"h"}`, false, cache.ErrPurgeBacklog, false, 503, "nothing was purged", "result"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeCache{purge: func(cache.Selector, cache.PurgeOptions) (cache.PurgeResult, error) {
				if c.pending {
					return cache.PurgeResult{Pending: true}, c.err
				}
				return cache.PurgeResult{Records: 3}, c.err
			}}
			status, body := call(t, f, "POST", "/v1/purge", c.body)
			if status != c.status || !strings.Contains(body, c.says) || strings.Contains(body, c.unsaid) {
				t.Errorf("%d %s", status, body)
			}
			if f.opt.NoWait != c.noWait || !strings.HasPrefix(f.opt.By, "admin ") {
				t.Errorf("options %+v", f.opt)
			}
		})
	}
}

// Every mistake is answered with a status below 500 that names field, value and what would be right, and nothing is done.
func TestBadInput(t *testing.T) {
	const purge, refresh, records = "POST /v1/purge", "POST /v1/refresh", "GET /v1/records"
	for name, c := range map[string]struct {
		at, body string // of a GET the query
		status   int
		field    string
		value    string
		says     string
	}{
		"empty body":          {purge, "", 400, "", "", "empty"},
		"blank body":          {purge, " \n", 400, "", "", "empty"},
		"list":                {purge, `["a"]`, 400, "", `["a"]`, "no JSON object"},
		"null":                {purge, `null`, 400, "", "null", "no JSON object"},
		"form":                {purge, `url=http://h/`, 400, "", "url=http://h/", "no JSON object"},
		"broken off":          {purge, `{"all":true`, 400, "", "", "no valid JSON"},
		"more after it":       {purge, `{"all":true}{}`, 400, "", "", "more after"},
		"nothing":             {purge, `{}`, 400, "", "", "set one of url, tags, prefix, glob, host, all"},
		"only options":        {purge, `{"soft":true}`, 400, "", "", "set one of"},
		"all is false":        {purge, `{"all":false}`, 400, "", "", "set one of"},
		"unknown field":       {purge, `{"tag":"a"}`, 400, "tag", `"a"`, "the fields are all, dry_run"},
		"other case":          {purge, `{"URL":"http://h/"}`, 400, "URL", `"http://h/"`, "the fields are"},
		"twice":               {purge, `{"all":true,"all":true}`, 400, "all", "true", "once"},
		"two selectors":       {purge, `{"all":true,"host":"h"}`, 400, "host, all", "", "exactly one"},
		"text for a list":     {purge, `{"tags":"a"}`, 400, "tags", `"a"`, `["…"]`},
		"null for a list":     {purge, `{"tags":null}`, 400, "tags", "null", `["…"]`},
		"number among texts":  {purge, `{"tags":["a",5]}`, 400, "tags[1]", "5", `"…"`},
		"empty list":          {purge, `{"tags":[]}`, 400, "tags", "[]", "at least one"},
		"empty tag":           {purge, `{"tags":["a",""]}`, 400, "tags[1]", `""`, "is empty"},
		"list for a text":     {purge, `{"url":["http://h/"]}`, 400, "url", `["http://h/"]`, `"…"`},
		"null for a text":     {purge, `{"url":null}`, 400, "url", "null", `"…"`},
		"empty text":          {purge, `{"url":""}`, 400, "url", `""`, "is empty"},
		"text for a truth":    {purge, `{"all":"yes"}`, 400, "all", `"yes"`, "true or false"},
		"number for a truth":  {purge, `{"all":1}`, 400, "all", "1", "true or false"},
		"relative url":        {purge, `{"url":"/a"}`, 400, "url", `"/a"`, "http://host/path"},
		"url without scheme":  {purge, `{"url":"example.org/a"}`, 400, "url", `"example.org/a"`, "http://host/path"},
		"url of another kind": {purge, `{"url":"ftp://h/a"}`, 400, "url", `"ftp://h/a"`, "http://host/path"},
		"url with a user":     {purge, `{"url":"http://u:p@h/"}`, 400, "url", `"http://u:p@h/"`, "user"},
		"bad escape":          {purge, `{"url":"http://h/%zz"}`, 400, "url", `"http://h/%zz"`, "escape"},
		"relative prefix":     {purge, `{"prefix":"/static/"}`, 400, "prefix", `"/static/"`, "begin with the scheme"},
		"blank in a prefix":   {purge, `{"prefix":"http://h/a b"}`, 400, "prefix", `"http://h/a b"`, "percent-encode"},
		"relative glob":       {purge, `{"glob":"/*.css"}`, 400, "glob", `"/*.css"`, "begin with the scheme"},
		"host is a url":       {purge, `{"host":"http://h"}`, 400, "host", `"http://h"`, "example.org:8080"},
		"host with a path":    {purge, `{"host":"h/a"}`, 400, "host", `"h/a"`, "example.org:8080"},
		"refresh unseen":      {purge, `{"all":true,"wait":false,"refresh":true}`, 400, "wait", "false", "leave out wait"},
		"count unseen":        {purge, `{"all":true,"wait":false,"dry_run":true}`, 400, "wait", "false", "leave out wait"},
		"text for wait":       {purge, `{"all":true,"wait":"no"}`, 400, "wait", `"no"`, "true or false"},
		"too large":           {purge, `{"tags":["` + strings.Repeat("a", maxBody) + `"]}`, 413, "", "", "larger than"},

		"refresh without url":      {refresh, `{"headers":{}}`, 400, "url", "", "missing"},
		"refresh of all":           {refresh, `{"all":true}`, 400, "all", "true", "the fields are headers, url"},
		"headers are a list":       {refresh, `{"url":"http://h/","headers":["A: b"]}`, 400, "headers", `["A: b"]`, `{"Accept-Encoding": "gzip"}`},
		"header of another type":   {refresh, `{"url":"http://h/","headers":{"A":1}}`, 400, "headers.A", "1", "a text"},
		"header is no name":        {refresh, `{"url":"http://h/","headers":{"A b":"1"}}`, 400, "headers.A b", `"A b"`, "no name"},
		"header with a line break": {refresh, `{"url":"http://h/","headers":{"A":"1\r\nB: 2"}}`, 400, "headers.A", `"1\r\nB: 2"`, "one line"},
		"host among headers":       {refresh, `{"url":"http://h/","headers":{"host":"x"}}`, 400, "headers.host", `"x"`, "by the url"},

		"no url":               {records, "", 400, "url", "", "once"},
		"two urls":             {records, "url=http://h/&url=http://i/", 400, "url", "", "once"},
		"other parameter":      {records, "url=http://h/&hdr=A:b", 400, "hdr", "", "the parameters are url, header"},
		"malformed query":      {records, "url=%zz", 400, "query", `"url=%zz"`, "percent-encode"},
		"header without colon": {records, "url=http://h/&header=A", 400, "header", `"A"`, "Name: value"},
		"relative":             {records, "url=/a", 400, "url", `"/a"`, "http://host/path"},

		"query of stats": {"GET /v1/stats", "x=1", 400, "query", "x=1", "leave it out"},
		"GET of purge":   {"GET /v1/purge", "", 405, "", "", "use POST"},
		"POST of stats":  {"POST /v1/stats", "", 405, "", "", "use GET"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeCache{
				purge:   func(cache.Selector, cache.PurgeOptions) (cache.PurgeResult, error) { panic("purged") },
				explain: func(*http.Request) (cache.Explanation, error) { panic("explained") },
			}
			method, path, _ := strings.Cut(c.at, " ")
			body := c.body
			if method == "GET" && body != "" {
				path, body = path+"?"+body, ""
			}
			status, text := call(t, f, method, path, body)
			e := refusal(t, text)
			if status != c.status || e.Status != c.status || e.Field != c.field || e.Value != c.value {
				t.Errorf("status %d, field %q, value %q; want %d, %q, %q", status, e.Field, e.Value, c.status, c.field, c.value)
			}
			if !strings.Contains(e.Message, c.says) || !strings.Contains(e.Message, c.field) {
				t.Errorf("message %q does not say %q", e.Message, c.says)
			}
		})
	}
}

func TestPurgeSelectors(t *testing.T) {
	for body, want := range map[string]cache.Selector{
		`{"url":"http://Example.org/a?b=c"}`:                       {URL: "http://Example.org/a?b=c"},
		`{"tags":["a","a b","ü"]}`:                                 {Tags: []string{"a", "a b", "ü"}},
		`{"prefix":"HTTP://Example.ORG:80/Dir/"}`:                  {Prefix: "http://example.org/Dir/"},
		`{"prefix":"https://example.org:80/"}`:                     {Prefix: "https://example.org:80/"},
		`{"prefix":"http://Exam"}`:                                 {Prefix: "http://exam"},
		`{"glob":"*/A.css"}`:                                       {Glob: "*/A.css"},
		`{"glob":"https://*.Example.org:443/*.CSS"}`:               {Glob: "https://*.example.org/*.CSS"},
		`{"host":"Example.org:8080"}`:                              {Host: "Example.org:8080"},
		`{"host":"[::1]:80"}`:                                      {Host: "[::1]:80"},
		`{"all":true,"soft":false,"dry_run":false,"refresh":true}`: {All: true},
	} {
		f := &fakeCache{}
		if status, text := call(t, f, "POST", "/v1/purge", body); status != 200 {
			t.Errorf("%s: %d %s", body, status, text)
		}
		if diff := cmp.Diff(want, f.sel); diff != "" {
			t.Errorf("%s (-want +got):\n%s", body, diff)
		}
	}
}

func TestPurgeAnswers(t *testing.T) {
	result := cache.PurgeResult{Records: 2, Tiers: map[string]int{"memory": 1, "disk": 2}, Keys: []string{"app http://h/?a&b", "k2"}}
	for name, c := range map[string]struct {
		body   string
		err    error
		status int
		want   string
	}{
		"hard":    {`{"all":true}`, nil, 200, `{"records":2,"tiers":{"disk":2,"memory":1},"keys":["app http://h/?a&b","k2"]}`},
		"soft":    {`{"all":true,"soft":true}`, nil, 200, `{"records":2,"tiers":{"disk":2,"memory":1},"keys":["app http://h/?a&b","k2"],"soft":true}`},
		"dry run": {`{"all":true,"dry_run":true,"refresh":true}`, nil, 200, `{"records":2,"tiers":{"disk":2,"memory":1},"keys":["app http://h/?a&b","k2"],"dry_run":true}`},
		"not on disk": {`{"all":true}`, errors.New("sync store: no space"), 503, `{"error":{"status":503,"message":"purged until the process ends, but not on disk: sync store: no space; send it again when the disk works",` +
			`"mend":"send it again when the disk works"},"result":{"records":2,"tiers":{"disk":2,"memory":1},"keys":["app http://h/?a&b","k2"]}}`},
		"closed": {`{"all":true}`, cache.ErrClosed, 503, `{"error":{"status":503,"message":"the proxy is stopping"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeCache{purge: func(cache.Selector, cache.PurgeOptions) (cache.PurgeResult, error) { return result, c.err }}
			if status, got := call(t, f, "POST", "/v1/purge", c.body); status != c.status || got != c.want+"\n" {
				t.Errorf("%d %s\nwant %d %s", status, got, c.status, c.want)
			}
		})
	}
	if _, got := call(t, &fakeCache{}, "POST", "/v1/purge", `{"tags":["unknown"]}`); got != `{"records":0,"keys":[]}`+"\n" {
		t.Errorf("unknown tag: %s", got)
	}
}

func TestTenThousandTags(t *testing.T) {
	tags := make([]string, 10_000)
	for i := range tags {
		tags[i] = fmt.Sprintf("%0500d", i)
	}
	body, err := json.Marshal(PurgeRequest{Tags: tags, Soft: true})
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeCache{}
	if status, text := call(t, f, "POST", "/v1/purge", string(body)); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	if !slices.Equal(f.sel.Tags, tags) || !f.opt.Soft {
		t.Errorf("%d tags arrived", len(f.sel.Tags))
	}
}

// A purge with refresh fetches each URL that was reached once, a bounded number at a time, and waits for places at the origin.
func TestPurgeRefreshes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now, most, tries := 0, 0, map[string]int{}
		f := &fakeCache{
			purge: func(_ cache.Selector, opt cache.PurgeOptions) (cache.PurgeResult, error) {
				for i := range 100 {
					opt.Reached(fmt.Sprint("http://h/", i/2))
				}
				return cache.PurgeResult{Records: 100}, nil
			},
			refresh: func(_ context.Context, r *http.Request) error {
				mu.Lock()
				now++
				most = max(most, now)
				tries[r.URL.String()]++
				first := tries[r.URL.String()] == 1
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				now--
				mu.Unlock()
				if first && r.URL.Path == "/7" {
					return fmt.Errorf("refresh: %w", cache.ErrNoSlot)
				}
				return nil
			},
		}
		a := newAdmin(t, Options{Cache: f, Refills: 5})
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, httptest.NewRequest("POST", "http://127.0.0.1/v1/purge", strings.NewReader(`{"all":true,"refresh":true}`)))
		if got := w.Body.String(); got != `{"records":100,"keys":[],"refreshing":50}`+"\n" {
			t.Errorf("answer %s", got)
		}
		start := time.Now()
		a.api.refiller.work.Wait()
		if took, want := time.Since(start), 11*time.Second; took > want {
			t.Errorf("took %v, want at most %v", took, want)
		}
		if most != 5 || len(tries) != 50 || tries["http://h/7"] != 2 || tries["http://h/8"] != 1 {
			t.Errorf("%d at once, %d URLs, %d and %d tries", most, len(tries), tries["http://h/7"], tries["http://h/8"])
		}
	})
}

// Close drops what waits and ends what runs.
func TestCloseEndsRefills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeCache{refresh: func(ctx context.Context, _ *http.Request) error { <-ctx.Done(); return ctx.Err() }}
		r := newRefiller(f, 2)
		if n := r.enqueue([]string{"http://h/1", "http://h/2", "http://h/3"}); n != 3 {
			t.Errorf("took %d", n)
		}
		synctest.Wait()
		if n := r.waiting(); n != 1 {
			t.Errorf("%d wait, want 1", n)
		}
		r.close()
		if n := r.enqueue([]string{"http://h/4"}); n != 0 {
			t.Errorf("took %d after close", n)
		}
	})
}

func TestRefillsAreBounded(t *testing.T) {
	s := newURLSet()
	for i := range maxRefills + 10 {
		s.add(fmt.Sprint("http://h/", i))
		s.add("http://h/0")
	}
	if len(s.list) != maxRefills || s.beyond != 10 {
		t.Errorf("%d URLs, %d beyond", len(s.list), s.beyond)
	}
	release := make(chan struct{})
	f := &fakeCache{refresh: func(context.Context, *http.Request) error { <-release; return nil }}
	r := newRefiller(f, 1)
	r.queue = make([]string, maxRefills-5)
	if n := r.enqueue(s.list); n != 5 {
		t.Errorf("took %d, want 5", n)
	}
	close(release)
	r.close()
}

var day = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func TestRecords(t *testing.T) {
	stored := cache.Explanation{
		Rule: "app", Key: "app http://h/", Use: policy.StaleWhileRevalidate, Reason: policy.ReasonStaleWhileRevalidate,
		Stored: true, Status: 200, Size: 5, StoredAt: day, Age: 90 * time.Second, Token: 7,
		FreshUntil: day.Add(time.Minute), StaleUntil: day.Add(time.Hour), ErrorUntil: day.Add(time.Minute),
		Tags: []string{"t"}, Fields: http.Header{"Etag": {`"e"`}},
		Filling: true, FillingSince: day.Add(2 * time.Minute), FillToken: 8, FillBackground: true, FillReaders: 2,
	}
	absent := cache.Explanation{
		Rule: "app", Key: "app http://h/", Use: policy.MustWait, Reason: policy.ReasonKeyMiss,
		NotStored: policy.ReasonSetCookie, NotStoredStatus: 200, NotStoredAt: day, MarkedUntil: day.Add(time.Second), RetryAt: day.Add(time.Minute),
	}
	for name, c := range map[string]struct {
		x    cache.Explanation
		want string
	}{
		"stored": {stored, `{"url":"http://h/","rule":"app","key":"app http://h/","use":"stale-while-revalidate","why":{"reason":"stale-while-revalidate","section":"RFC 5861 §3"},` +
			`"record":{"status":200,"bytes":5,"stored_at":"2026-03-04T05:06:07Z","age_seconds":90,"fresh_until":"2026-03-04T05:07:07Z","stale_until":"2026-03-04T06:06:07Z",` +
			`"tags":["t"],"number":7,"fields":{"Etag":["\"e\""]}},"fill":{"number":8,"since":"2026-03-04T05:08:07Z","background":true,"readers":2}}`},
		"absent": {absent, `{"url":"http://h/","rule":"app","key":"app http://h/","use":"must-wait","why":{"reason":"key-miss","section":"RFC 9111 §2"},` +
			`"not_stored":{"reason":"set-cookie","section":"own","status":200,"at":"2026-03-04T05:06:07Z"},"retry_at":"2026-03-04T05:07:07Z","direct_until":"2026-03-04T05:06:08Z"}`},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeCache{explain: func(*http.Request) (cache.Explanation, error) { return c.x, nil }}
			status, got := call(t, f, "GET", "/v1/records?url=http%3A%2F%2Fh%2F&header=Accept-Encoding:+gzip&header=X:", "")
			if status != 200 || got != c.want+"\n" {
				t.Errorf("%d %s\nwant %s", status, got, c.want)
			}
			if f.req.Header.Get("Accept-Encoding") != "gzip" || f.req.URL.String() != "http://h/" || len(f.req.Header["X"]) != 1 {
				t.Errorf("asked for %s with %v", f.req.URL, f.req.Header)
			}
		})
	}
}

// What the cache has to say about a request keeps its meaning on the way out.
func TestRequestsThatTheCacheRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		status int
	}{
		"malformed": {fmt.Errorf("cache: %w", &policy.BadTarget{Part: "path", Value: "/x", Why: "bad"}), 400},
		"no rule":   {cache.ErrNoRule, 404},
		"closed":    {cache.ErrClosed, 503},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeCache{explain: func(*http.Request) (cache.Explanation, error) { return cache.Explanation{}, c.err }}
			for _, r := range []struct{ method, path, body string }{
				{"GET", "/v1/records?url=http://h/", ""}, {"POST", "/v1/refresh", `{"url":"http://h/"}`},
			} {
				if status, text := call(t, f, r.method, r.path, r.body); status != c.status {
					t.Errorf("%s: %d %s", r.path, status, text)
				}
			}
		})
	}
}

func TestRefresh(t *testing.T) {
	for name, c := range map[string]struct {
		err         error
		takes       time.Duration
		bypass      bool
		stored      bool
		status      int
		says, retry string
	}{
		"stored":     {nil, time.Second, false, true, 200, `{"outcome":"stored","took_ms":1000,"now":{"url":"http://h/"`, ""},
		"not stored": {nil, time.Second, false, false, 200, `{"outcome":"not-stored","took_ms":1000,`, ""},
		"running":    {nil, time.Minute, false, false, 200, `{"outcome":"running","took_ms":30000,`, ""},
		"no place":   {fmt.Errorf("cache: refresh: %w", cache.ErrNoSlot), 0, false, false, 503, "try again", "1"},
		"no answer":  {errors.New("cache: refresh: connection refused"), 0, false, false, 502, "connection refused", ""},
		"not cached": {nil, 0, true, false, 409, "is not cached: rule", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				token := uint64(1)
				f := &fakeCache{
					explain: func(*http.Request) (cache.Explanation, error) {
						if c.bypass {
							return cache.Explanation{Use: policy.Bypass, Reason: policy.ReasonRule}, nil
						}
						return cache.Explanation{Use: policy.Fresh, Stored: true, Token: token}, nil
					},
					refresh: func(ctx context.Context, r *http.Request) error {
						if r.Header.Get("Accept") != "a, b" && len(r.Header["Accept"]) != 2 {
							t.Errorf("header %v", r.Header)
						}
						select {
						case <-time.After(c.takes):
						case <-ctx.Done():
							return context.Cause(ctx)
						}
						if c.stored {
							token++
						}
						return c.err
					},
				}
				a := newAdmin(t, Options{Cache: f})
				w := httptest.NewRecorder()
				a.Handler().ServeHTTP(w, httptest.NewRequest("POST", "http://127.0.0.1/v1/refresh", strings.NewReader(`{"url":"http://h/","headers":{"Accept":["a","b"]}}`)))
				if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) || w.Header().Get("Retry-After") != c.retry {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			})
		})
	}
}

type tier cache.StoreStats

func (s tier) Stats() cache.StoreStats { return cache.StoreStats(s) }

func TestStats(t *testing.T) {
	a := newAdmin(t, Options{Cache: &fakeCache{}, Tiers: map[string]cache.StatsSource{"memory": tier{Records: 4, Bytes: 5, Max: 6, Evicted: 7, Rejected: 8, Expired: 9, Purged: 10, Damaged: 11}}})
	resp := ask(a, "GET", "http://127.0.0.1/v1/stats")
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"fills":1,"waiting":2,"refills":0,"invalidations":3,"tiers":{"memory":{"records":4,"bytes":5,"max_bytes":6,` +
		`"evicted":7,"rejected":8,"expired":9,"purged":10,"damaged":11}}}` + "\n"
	if string(got) != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// The API is behind the listener's checks, and absent without a cache.
func TestAPIAccess(t *testing.T) {
	f := &fakeCache{}
	open, guarded, without := newAdmin(t, Options{Cache: f}), newAdmin(t, Options{Cache: f, Token: "s3cret"}), newAdmin(t, Options{})
	for _, path := range []string{"/v1/stats", "/v1/records?url=http://h/"} {
		for name, c := range map[string]struct {
			a      *Admin
			url    string
			header []string
			want   int
		}{
			"loopback":       {open, "http://127.0.0.1", nil, 200},
			"foreign host":   {open, "http://evil.example", nil, 403},
			"foreign origin": {open, "http://127.0.0.1", []string{"Origin", "http://evil.example"}, 403},
			"no token":       {guarded, "http://127.0.0.1", nil, 401},
			"token":          {guarded, "http://proxy.example", []string{"Authorization", "Bearer s3cret"}, 200},
			"no cache":       {without, "http://127.0.0.1", nil, 404},
		} {
			if got := ask(c.a, "GET", c.url+path, c.header...).StatusCode; got != c.want {
				t.Errorf("%s, %s: %d, want %d", name, path, got, c.want)
			}
		}
	}
}

// FuzzPurgeBody: no body makes the handler fail.
func FuzzPurgeBody(f *testing.F) {
	for _, seed := range []string{"", "{", `{"all":true}`, `{"tags":["a"]}`, `{"url":"http://h/%2f"}`, `{"prefix":"http://:/"}`, `{"host":"["}`, `{"glob":"*"}`, `{"a":{"b":[1e999]}}`, "[[[["} {
		f.Add(seed)
	}
	a, err := New(Options{Cache: &fakeCache{}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body string) {
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, httptest.NewRequest("POST", "http://127.0.0.1/v1/purge", strings.NewReader(body)))
		if w.Code >= 500 || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}
