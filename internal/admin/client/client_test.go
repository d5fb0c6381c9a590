package client

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/internal/admin"
	"github.com/swrproxy/swrproxy/internal/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// oneRecord is a cache with one record.
type oneRecord struct{}

func (oneRecord) Purge(_ context.Context, sel cache.Selector, _ cache.PurgeOptions) (cache.PurgeResult, error) {
	if !sel.All {
		return cache.PurgeResult{}, nil
	}
	return cache.PurgeResult{Records: 1, Tiers: map[string]int{"memory": 1}, Keys: []string{"app http://h/?a&b"}}, nil
}

func (oneRecord) Explain(r *http.Request) (cache.Explanation, error) {
	if r.Host != "h" {
		return cache.Explanation{}, cache.ErrNoRule
	}
	return cache.Explanation{Rule: "app", Key: "app " + r.URL.String() + " " + r.Header.Get("Accept")}, nil
}

func (oneRecord) Refresh(context.Context, *http.Request) error { return nil }
func (oneRecord) Stats() cache.Stats                           { return cache.Stats{Waiting: 3} }

func serve(t *testing.T, token string) string {
	t.Helper()
	a, err := admin.New(admin.Options{Cache: oneRecord{}, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(a.Handler())
	t.Cleanup(s.Close)
	return s.URL
}

// Client and server agree about every path.
func TestCalls(t *testing.T) {
	c := New(Where{Admin: serve(t, "s3cret"), Token: "s3cret"})
	ctx := t.Context()
	purged, err := c.Purge(ctx, admin.PurgeRequest{All: true, Soft: true})
	if diff := cmp.Diff(admin.PurgeAnswer{Records: 1, Tiers: map[string]int{"memory": 1}, Keys: []string{"app http://h/?a&b"}, Soft: true}, purged); diff != "" || err != nil {
		t.Errorf("purge: %v\n%s", err, diff)
	}
	h := http.Header{"Accept": {"a, b"}}
	if rec, err := c.Records(ctx, "http://h/?x=1&y", h); err != nil || rec.Key != "app http://h/?x=1&y a, b" {
		t.Errorf("records: %+v, %v", rec, err)
	}
	if ref, err := c.Refresh(ctx, admin.RefreshRequest{URL: "http://h/", Headers: h}); err != nil || ref.Outcome != "not-stored" || ref.Now.Key != "app http://h/ a, b" {
		t.Errorf("refresh: %+v, %v", ref, err)
	}
	if stats, err := c.Stats(ctx); err != nil || stats.Waiting != 3 {
		t.Errorf("stats: %+v, %v", stats, err)
	}
}

func TestRefusals(t *testing.T) {
	url := serve(t, "s3cret")
	right, wrong := New(Where{Admin: url, Token: "s3cret"}), New(Where{Admin: url, Token: "other"})
	_, nothing := right.Purge(t.Context(), admin.PurgeRequest{})
	_, noRule := right.Records(t.Context(), "http://other/", nil)
	_, noToken := wrong.Stats(t.Context())
	for name, c := range map[string]struct {
		err    error
		status int
		says   string
	}{
		"bad input": {nothing, 400, "set one of url"},
		"no rule":   {noRule, 404, "matched by no rule"},
		"token":     {noToken, 401, "token missing or wrong"},
	} {
		if r, ok := errors.AsType[*Refused](c.err); !ok || r.Status != c.status || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
}

// What is no admin listener is not taken for one, and is not given the token of another.
func TestOtherServers(t *testing.T) {
	asked := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer other.Close()
	for name, h := range map[string]http.HandlerFunc{
		"page": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"404":  func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 404) },
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		},
	} {
		s := httptest.NewServer(h)
		if _, err := New(Where{Admin: s.URL, Token: "x"}).Stats(t.Context()); err == nil || !strings.Contains(err.Error(), s.URL) {
			t.Errorf("%s: %v", name, err)
		}
		s.Close()
	}
	if asked != 0 {
		t.Error("the redirect was followed")
	}
	if _, err := New(Where{Admin: "http://127.0.0.1:1"}).Stats(t.Context()); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("nobody there: %v", err)
	}
}

func TestLocate(t *testing.T) {
	dir := t.TempDir()
	file := func(text string) string {
		name := filepath.Join(dir, "f.yaml")
		if err := os.WriteFile(name, []byte("origins: { app: { url: http://127.0.0.1:3000 } }\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for name, c := range map[string]struct {
		file string
		in   Where
		want Where
		err  error
	}{
		"nothing":             {"", Where{}, Where{Admin: DefaultAdmin}, nil},
		"URL":                 {"", Where{Admin: "http://h:1/"}, Where{Admin: "http://h:1"}, nil},
		"address":             {"", Where{Admin: "h:1", Token: "t"}, Where{Admin: "http://h:1", Token: "t"}, nil},
		"file":                {"admin: { listen: 127.0.0.1:9, token: s }", Where{}, Where{Admin: "http://127.0.0.1:9", Token: "s"}, nil},
		"flags before file":   {"admin: { listen: 127.0.0.1:9, token: s }", Where{Admin: "h:1", Token: "t"}, Where{Admin: "http://h:1", Token: "t"}, nil},
		"every interface":     {"admin: { listen: ':9', token: s }", Where{}, Where{Admin: "http://127.0.0.1:9", Token: "s"}, nil},
		"every IPv6":          {"admin: { listen: '[::]:9', token: s }", Where{}, Where{Admin: "http://[::1]:9", Token: "s"}, nil},
		"free port":           {"admin: { listen: 127.0.0.1:0 }", Where{}, Where{}, ErrFreePort},
		"free port, but said": {"admin: { listen: 127.0.0.1:0 }", Where{Admin: "h:1"}, Where{Admin: "http://h:1"}, nil},
		"no listener":         {"log: { level: info }", Where{}, Where{}, ErrNoAdmin},
	} {
		t.Run(name, func(t *testing.T) {
			if c.file != "" {
				c.in.Config = file(c.file)
				if c.err == nil {
					c.want.Config = c.in.Config
				}
			}
			got, err := Locate(c.in)
			if !errors.Is(err, c.err) || got != c.want {
				t.Errorf("%+v, %v; want %+v, %v", got, err, c.want, c.err)
			}
		})
	}
	if _, err := Locate(Where{Config: file("admn: 1")}); err == nil {
		t.Error("a bad file is no error")
	} else if _, ok := errors.AsType[*config.Error](err); !ok {
		t.Errorf("bad file: %v", err)
	}
	for _, bad := range []string{"http://", "ftp://h", "unix:///x", "://"} {
		if _, err := Locate(Where{Admin: bad}); err == nil {
			t.Errorf("%q is taken for an address", bad)
		}
	}
}

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func until(d time.Duration) *time.Time { t := noon.Add(d); return &t }

func TestWriteRecord(t *testing.T) {
	for name, c := range map[string]struct {
		a    admin.RecordAnswer
		want string
	}{
		"stored": {
			admin.RecordAnswer{
				URL: "http://h/", Rule: "app", Key: "app http://h/\x1b[2J", Use: "stale-while-revalidate", Why: admin.Why{Reason: "stale-while-revalidate", Section: "RFC 5861 §3"},
				Record: &admin.RecordDetail{
					Status: 200, Bytes: 5, StoredAt: *until(-time.Hour), AgeSeconds: 3600, FreshUntil: *until(-time.Minute), StaleUntil: until(time.Minute),
					Tags: []string{"a", "b"}, Number: 7, Variants: 2, Vary: []string{"accept"}, Fields: http.Header{"Etag": {"x"}},
				},
				Fill: &admin.FillDetail{Number: 8, Since: noon, Background: true, Readers: 1},
			},
			`url          http://h/
rule         app
key          app http://h/` + "\uFFFD" + `[2J
reader       served stale at once, refreshed behind
because      stale-while-revalidate [RFC 5861 §3]
stored       status 200, 5 bytes, at 2026-03-04T11:00:00Z (1h0m0s ago) by fill 7
age          1h0m0s
fresh until  2026-03-04T11:59:00Z (1m0s ago)
stale until  2026-03-04T12:01:00Z (in 1m0s)
on errors    no window: stale is not served when the origin fails
variants     2, by accept
tags         a b
field        Etag: x
filled by    a background refresh, number 8, since 2026-03-04T12:00:00Z (now); 1 reader
`,
		},
		"not stored": {
			admin.RecordAnswer{
				URL: "http://h/", Rule: "app", Key: "k", Use: "must-wait", Why: admin.Why{Reason: "key-miss", Section: "RFC 9111 §2"},
				NotStored: &admin.NotStored{Why: admin.Why{Reason: "set-cookie", Section: "own"}, Status: 200, At: *until(-time.Second)},
				Fill:      &admin.FillDetail{Number: 8, Since: noon, Readers: 2},
				RetryAt:   until(time.Minute), DirectUntil: until(time.Second),
			},
			`url          http://h/
rule         app
key          k
reader       waits for the origin
because      key-miss [RFC 9111 §2]
stored       no
not stored   the origin's answer of 2026-03-04T11:59:59Z (1s ago), status 200: set-cookie [own]
filled by    a reader's fetch, number 8, since 2026-03-04T12:00:00Z (now); 2 readers
paused       the origin failed; no attempt until 2026-03-04T12:01:00Z (in 1m0s)
direct       answers are not shared: each reader asks the origin until 2026-03-04T12:00:01Z (in 1s)
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			WriteRecord(&b, &c.a, noon)
			if diff := cmp.Diff(c.want, b.String()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestWritePurge(t *testing.T) {
	for want, a := range map[string]admin.PurgeAnswer{
		"0 records purged\n":                                                    {},
		"1 record would be reached\n  k\n":                                      {Records: 1, Keys: []string{"k"}, DryRun: true},
		"3 records made stale (disk 3, memory 1)\n  k\n  and 2 more\n":          {Records: 3, Keys: []string{"k"}, Soft: true, Tiers: map[string]int{"memory": 1, "disk": 3}},
		"1 record purged\n  k\n1 URL being fetched afresh\n":                    {Records: 1, Keys: []string{"k"}, Refreshing: 1},
		"1 record purged\n  k\n2 URLs left to the next reader: too many wait\n": {Records: 1, Keys: []string{"k"}, Skipped: 2},
	} {
		var b strings.Builder
		WritePurge(&b, &a)
		if b.String() != want {
			t.Errorf("%+v: %q", a, b.String())
		}
	}
}

func TestWriteRefreshAndStats(t *testing.T) {
	var b strings.Builder
	WriteRefresh(&b, &admin.RefreshAnswer{Outcome: "stored", TookMS: 1500, Now: admin.RecordAnswer{URL: "http://h/"}}, noon)
	if !strings.HasPrefix(b.String(), "stored after 1.5s\nurl          http://h/\n") {
		t.Error(b.String())
	}
	b.Reset()
	WriteStats(&b, &admin.StatsAnswer{Fills: 1, Waiting: 2, Refills: 3, Invalidations: 4, Tiers: map[string]admin.TierStats{"memory": {Records: 5, Bytes: 6, MaxBytes: 7}}})
	const want = "fills 1, waiting readers 2, refills to come 3, invalidations 4\n" +
		"memory: 5 records, 6 of 7 bytes; evicted 0, rejected 0, expired 0, purged 0, damaged 0\n"
	if b.String() != want {
		t.Error(b.String())
	}
}
