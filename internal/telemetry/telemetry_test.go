package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/fill"
	"github.com/swrproxy/swrproxy/policy"
)

// harness is a Telemetry that writes to a buffer.
type harness struct {
	*Telemetry
	out      bytes.Buffer
	registry *prometheus.Registry
}

func newHarness(t testing.TB, o Options) *harness {
	t.Helper()
	h := &harness{registry: prometheus.NewRegistry()}
	logger, err := NewLogger("json", "info", &h.out)
	if err != nil {
		t.Fatal(err)
	}
	o.Logger, o.Registry = logger, h.registry
	if h.Telemetry, err = New(o); err != nil {
		t.Fatal(err)
	}
	return h
}

// lines returns what was written since the last call, decoded.
func (h *harness) lines(t testing.TB) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range strings.Lines(h.out.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all = append(all, m)
	}
	h.out.Reset()
	return all
}

func (h *harness) compare(t *testing.T, want string, names ...string) {
	t.Helper()
	if err := testutil.GatherAndCompare(h.registry, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

func hit() *cache.ReadEvent {
	return &cache.ReadEvent{
		Took: 1500 * time.Microsecond, Rule: "static", Method: "GET", Scheme: "https", Host: "example.org", Path: "/a", Query: "token=secret",
		Remote: "192.0.2.1:7", Proto: "HTTP/1.1", Status: 200, Bytes: 10, Result: cache.ResultHit, Reason: policy.ReasonFresh,
	}
}

func TestRequestMetrics(t *testing.T) {
	h := newHarness(t, Options{Rules: []string{"static"}})
	stale, unknown := hit(), hit()
	stale.Result, stale.Reason, stale.ClientGone = cache.ResultStale, policy.ReasonStaleWhileRevalidate, true
	unknown.Rule, unknown.Result, unknown.Status = "made-up", cache.ResultError, 504
	for _, ev := range []*cache.ReadEvent{hit(), hit(), stale, unknown} {
		h.ReadDone(ev)
	}
	h.compare(t, `
# HELP swrproxy_clients_gone_total Requests whose client went away before its answer was whole.
# TYPE swrproxy_clients_gone_total counter
swrproxy_clients_gone_total 1
# HELP swrproxy_requests_total Requests by rule, cache result and status class.
# TYPE swrproxy_requests_total counter
swrproxy_requests_total{class="2xx",result="hit",rule="static"} 2
swrproxy_requests_total{class="2xx",result="stale",rule="static"} 1
swrproxy_requests_total{class="5xx",result="error",rule=""} 1
# HELP swrproxy_stale_served_total Requests answered with an expired response, by what allowed it.
# TYPE swrproxy_stale_served_total counter
swrproxy_stale_served_total{kind="stale-while-revalidate"} 1
`, "swrproxy_requests_total", "swrproxy_stale_served_total", "swrproxy_clients_gone_total")
	if got := testutil.ToFloat64(h.requests.sent[cache.ResultHit]); got != 20 {
		t.Errorf("%v bytes by hits, want 20", got)
	}
}

func TestFillMetrics(t *testing.T) {
	h := newHarness(t, Options{})
	ev := &cache.FillEvent{Rule: "r", Background: true}
	h.FillStarted(ev)
	h.FillStarted(ev)
	ev.Outcome.Kind, ev.Status, ev.Refreshed = fill.Stored, 304, true
	h.FillDone(ev)
	h.compare(t, `
# HELP swrproxy_fills_in_flight Fills that run now.
# TYPE swrproxy_fills_in_flight gauge
swrproxy_fills_in_flight 1
# HELP swrproxy_fills_revalidated_total Fills that ended with the origin confirming the stored response.
# TYPE swrproxy_fills_revalidated_total counter
swrproxy_fills_revalidated_total 1
# HELP swrproxy_fills_total Fills by rule, outcome, and whether a reader waited for it (reader) or not (background).
# TYPE swrproxy_fills_total counter
swrproxy_fills_total{outcome="stored",rule="r",trigger="background"} 1
`, "swrproxy_fills_in_flight", "swrproxy_fills_total", "swrproxy_fills_revalidated_total")
	if lines := h.lines(t); len(lines) > 0 {
		t.Errorf("a good fill was logged at info: %v", lines)
	}
}

func TestAccessLine(t *testing.T) {
	h := newHarness(t, Options{Access: Access{Enabled: true}})
	h.ReadDone(hit())
	lines := h.lines(t)
	if len(lines) != 1 {
		t.Fatalf("%d lines", len(lines))
	}
	for field, want := range map[string]any{
		"level": "info", "message": "request", "method": "GET", "scheme": "https", "host": "example.org", "path": "/a", "status": 200.0,
		"bytes": 10.0, "took_ms": 1.5, "result": "hit", "reason": "fresh", "rule": "static", "remote": "192.0.2.1:7", "proto": "HTTP/1.1",
	} {
		if lines[0][field] != want {
			t.Errorf("%s is %v, want %v", field, lines[0][field], want)
		}
	}
	if _, err := time.Parse(timeFormat, fmt.Sprint(lines[0]["time"])); err != nil {
		t.Error(err)
	}
}

// What clients put into a query is written only if asked for, wherever it turns up.
func TestNoSecrets(t *testing.T) {
	const secret = "token=secret"
	for query, want := range map[bool]bool{false: false, true: true} {
		h := newHarness(t, Options{Access: Access{Enabled: true, Query: query}})
		read := hit()
		read.Result, read.Err = cache.ResultError, errors.New(`Get "http://o/a?`+secret+`&x=1": refused; then http://o/b?`+secret)
		h.ReadDone(read)
		h.FillDone(&cache.FillEvent{
			Key: fill.Key{ID: "http://o/a?" + secret}, URL: "http://o/a?" + secret,
			Outcome: fill.Outcome{Kind: fill.Failed, Err: errors.New("http://o/a?" + secret + " failed")},
		})
		h.Noted(&cache.Note{Kind: cache.NoteStore, Key: "r\x00http://o/a?" + secret + "\x00Cookie:secret", Text: "at http://o/a?" + secret})
		got := h.out.String()
		if lines := h.lines(t); len(lines) != 3 {
			t.Errorf("%d lines, want 3", len(lines))
		}
		if strings.Contains(got, secret) != want {
			t.Errorf("with Query %t: %s", query, got)
		}
		if strings.Contains(got, "Cookie:") || !strings.Contains(got, "refused; then") {
			t.Errorf("with Query %t: %s", query, got)
		}
	}
}

func TestSampling(t *testing.T) {
	h := newHarness(t, Options{Access: Access{Enabled: true, Every: 10}})
	failed := hit()
	failed.Result, failed.Err = cache.ResultError, errors.New("down")
	for range 100 {
		h.ReadDone(hit())
	}
	if n := len(h.lines(t)); n != 10 {
		t.Errorf("%d lines of 100, want 10", n)
	}
	h.ReadDone(failed)
	if n := len(h.lines(t)); n != 1 {
		t.Errorf("an error was sampled away")
	}
}

// One warning per key and back-off step; other keys have their own.
func TestFailedFillWarnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, Options{})
		fail := func(id string, retry time.Duration) {
			h.FillDone(&cache.FillEvent{
				Rule: "r", Key: fill.Key{Space: "r", ID: id}, URL: "http://o/" + id, Retry: retry,
				Outcome: fill.Outcome{Kind: fill.Failed, Err: errors.New("connection refused")},
			})
		}
		for range 5 {
			fail("a", 4*time.Second)
		}
		fail("b", time.Second)
		lines := h.lines(t)
		if len(lines) != 2 || lines[0]["level"] != "warn" || lines[0]["url"] != "http://o/a" || lines[0]["error"] != "connection refused" ||
			lines[0]["retry_ms"] != 4000.0 || lines[1]["url"] != "http://o/b" {
			t.Errorf("first step: %v", lines)
		}
		time.Sleep(3 * time.Second)
		fail("a", 4*time.Second)
		if lines := h.lines(t); len(lines) != 0 {
			t.Errorf("within the step: %v", lines)
		}
		time.Sleep(time.Second)
		fail("a", 8*time.Second)
		if lines := h.lines(t); len(lines) != 1 || lines[0]["lines_held"] != 5.0 {
			t.Errorf("next step: %v", lines)
		}
	})
}

func TestWhatCountsAsFailed(t *testing.T) {
	boom := errors.New("boom")
	for _, tc := range []struct {
		out  fill.Outcome
		want bool
	}{
		{fill.Outcome{Kind: fill.Failed, Err: boom}, true},
		{fill.Outcome{Kind: fill.TenureOver}, true},
		{fill.Outcome{Kind: fill.Abandoned, Err: boom}, true},
		{fill.Outcome{Kind: fill.Abandoned, Err: fill.ErrSuperseded}, false},
		{fill.Outcome{Kind: fill.Abandoned, Err: fmt.Errorf("stop: %w", fill.ErrClosed)}, false},
		{fill.Outcome{Kind: fill.Abandoned, Err: cache.ErrNoSlot}, false},
		{fill.Outcome{Kind: fill.Abandoned}, false},
		{fill.Outcome{Kind: fill.Superseded}, false},
		{fill.Outcome{Kind: fill.Stored}, false},
		{fill.Outcome{Kind: fill.NotShareable}, false},
	} {
		if got := failed(tc.out); got != tc.want {
			t.Errorf("%v: %t", tc.out, got)
		}
	}
}

func TestKeyLimitIsBounded(t *testing.T) {
	k, now := newKeyLimit(3), time.Unix(1000, 0)
	passed := 0
	for i := range 10 {
		if _, ok := k.allow(fill.Key{ID: fmt.Sprint(i)}, now, time.Minute); ok {
			passed++
		}
	}
	if passed != 3 || len(k.until) != 3 {
		t.Errorf("%d passed, %d kept, want 3", passed, len(k.until))
	}
	held, ok := k.allow(fill.Key{ID: "later"}, now.Add(time.Hour), time.Minute)
	if !ok || held != 7 || len(k.until) != 1 {
		t.Errorf("after the pauses: %t, %d held, %d kept", ok, held, len(k.until))
	}
}

func TestNotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, Options{})
		for range 3 {
			h.Noted(&cache.Note{Kind: cache.NoteKeeper, Text: "keeper failed", Err: errors.New("gone")})
		}
		h.Noted(&cache.Note{Kind: cache.NotePanic, Text: "fill panicked"})
		lines := h.lines(t)
		if len(lines) != 2 || lines[0]["level"] != "warn" || lines[0]["kind"] != "keeper" || lines[1]["level"] != "error" {
			t.Errorf("%v", lines)
		}
		time.Sleep(time.Second)
		h.Noted(&cache.Note{Kind: cache.NoteKeeper, Text: "keeper failed"})
		if lines := h.lines(t); len(lines) != 1 || lines[0]["lines_held"] != 2.0 {
			t.Errorf("%v", lines)
		}
		h.compare(t, `
# HELP swrproxy_notes_total Rare events that an operator should know of, by kind.
# TYPE swrproxy_notes_total counter
swrproxy_notes_total{kind="keeper"} 4
swrproxy_notes_total{kind="panic"} 1
`, "swrproxy_notes_total")
	})
}

// Each purge has its line and is counted, however many come in a second.
func TestPurges(t *testing.T) {
	h := newHarness(t, Options{})
	tag := cache.PurgeEvent{By: "admin 127.0.0.1:7", Selector: "tag", Value: "a b", Soft: true, Records: 3, Counted: true, Took: 1500 * time.Microsecond}
	url := cache.PurgeEvent{By: "PURGE 192.0.2.1:7", Selector: "url", Value: "http://h/a?token=secret", Records: 1}
	for range 2 {
		h.Noted(&cache.Note{Kind: cache.NoteInvalidated, Text: "purge", Purge: &tag})
	}
	h.Noted(&cache.Note{Kind: cache.NoteInvalidated, Text: "purge", Err: errors.New("disk full"), Purge: &url})
	lines := h.lines(t)
	if len(lines) != 3 {
		t.Fatalf("%v", lines)
	}
	for name, want := range map[string]any{
		"level": "info", "message": "purge", "by": tag.By, "selector": "tag", "value": "a b", "mode": "soft", "records": 3.0, "took_ms": 1.5,
	} {
		if got := lines[1][name]; got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if l := lines[2]; l["level"] != "warn" || l["mode"] != "hard" || l["incomplete"] != true || l["error"] != "disk full" || strings.Contains(fmt.Sprint(l), "secret") {
		t.Errorf("%v", l)
	}
	h.compare(t, `
# HELP swrproxy_purged_records_total Stored responses that purges reached.
# TYPE swrproxy_purged_records_total counter
swrproxy_purged_records_total 7
# HELP swrproxy_purges_total Purges by selector (url, tag, prefix, glob, host, all; unsafe: what an unsafe request invalidated) and mode (hard, soft).
# TYPE swrproxy_purges_total counter
swrproxy_purges_total{mode="hard",selector="url"} 1
swrproxy_purges_total{mode="soft",selector="tag"} 2
`, "swrproxy_purges_total", "swrproxy_purged_records_total")
}

type fixedStats cache.StoreStats

func (f fixedStats) Stats() cache.StoreStats { return cache.StoreStats(f) }

func TestWatches(t *testing.T) {
	h := newHarness(t, Options{})
	if err := h.WatchStores(map[string]cache.StatsSource{"memory": fixedStats{Bytes: 7, Evicted: 3}, "disk": fixedStats{Bytes: 9}}); err != nil {
		t.Fatal(err)
	}
	if err := h.WatchTargets(func() []Target { return []Target{{"app", "http://a", true}, {"app", "http://b", false}} }); err != nil {
		t.Fatal(err)
	}
	if err := h.WatchGauge("readers_waiting", "Readers.", func() float64 { return 5 }); err != nil {
		t.Fatal(err)
	}
	h.compare(t, `
# HELP swrproxy_origin_up 1 if the upstream is used, 0 while it is marked as failing.
# TYPE swrproxy_origin_up gauge
swrproxy_origin_up{origin="app",url="http://a"} 1
swrproxy_origin_up{origin="app",url="http://b"} 0
# HELP swrproxy_readers_waiting Readers.
# TYPE swrproxy_readers_waiting gauge
swrproxy_readers_waiting 5
# HELP swrproxy_store_bytes Bytes held, overhead included.
# TYPE swrproxy_store_bytes gauge
swrproxy_store_bytes{tier="disk"} 9
swrproxy_store_bytes{tier="memory"} 7
# HELP swrproxy_store_evicted_total Records dropped for room.
# TYPE swrproxy_store_evicted_total counter
swrproxy_store_evicted_total{tier="disk"} 0
swrproxy_store_evicted_total{tier="memory"} 3
`, "swrproxy_origin_up", "swrproxy_readers_waiting", "swrproxy_store_bytes", "swrproxy_store_evicted_total")
	if err := h.WatchGauge("readers_waiting", "Others.", func() float64 { return 0 }); err == nil {
		t.Error("a taken name was no error")
	}
}

func TestNewTwice(t *testing.T) {
	registry := prometheus.NewRegistry()
	for i, want := range []bool{true, false} {
		if _, err := New(Options{Registry: registry}); (err == nil) != want {
			t.Errorf("call %d: %v", i+1, err)
		}
	}
}

func TestLoggerSettings(t *testing.T) {
	var out bytes.Buffer
	for name, tc := range map[string]struct {
		format, level string
		ok            bool
		written       string
	}{
		"defaults": {"", "", true, `"message":"heard"`},
		"console":  {"console", "info", true, "heard"},
		"quiet":    {"json", "error", true, ""},
		"off":      {"json", "off", true, ""},
		"format":   {"xml", "info", false, ""},
		"level":    {"json", "loud", false, ""},
	} {
		out.Reset()
		l, err := NewLogger(tc.format, tc.level, &out)
		if (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
		l.Warn().Msg("heard")
		if got := out.String(); !strings.Contains(got, tc.written) || (tc.written == "") != (got == "") {
			t.Errorf("%s: wrote %q", name, got)
		}
	}
}

// The hot path allocates nothing without a log, and nothing with one either.
func TestReadDoneAllocations(t *testing.T) {
	for name, access := range map[string]Access{"off": {}, "on": {Enabled: true}, "sampled": {Enabled: true, Every: 100}} {
		tm, err := New(Options{Logger: discardLogger(t), Rules: []string{"static"}, Access: access})
		if err != nil {
			t.Fatal(err)
		}
		ev := hit()
		tm.ReadDone(ev)
		if n := testing.AllocsPerRun(1000, func() { tm.ReadDone(ev) }); n != 0 {
			t.Errorf("access log %s: %v allocations", name, n)
		}
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func discardLogger(t testing.TB) zerolog.Logger {
	l, err := NewLogger("json", "info", discard{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func BenchmarkReadDone(b *testing.B) {
	for _, name := range []string{"quiet", "logged"} {
		b.Run(name, func(b *testing.B) {
			tm, err := New(Options{Logger: discardLogger(b), Rules: []string{"static"}, Access: Access{Enabled: name == "logged"}})
			if err != nil {
				b.Fatal(err)
			}
			ev := hit()
			b.ReportAllocs()
			for b.Loop() {
				tm.ReadDone(ev)
			}
		})
	}
}

func TestRulesThatCameWithAReload(t *testing.T) {
	registry := prometheus.NewRegistry()
	tel, err := New(Options{Registry: registry, Rules: []string{"old"}})
	if err != nil {
		t.Fatal(err)
	}
	read := func(rule string) { tel.ReadDone(&cache.ReadEvent{Rule: rule, Status: 200, Result: cache.ResultHit}) }
	read("old")
	tel.SetRules([]string{"old", "new"})
	read("old")
	read("new")
	for rule, want := range map[string]float64{"old": 2, "new": 1} {
		if got := testutil.ToFloat64(tel.requests.total.WithLabelValues(rule, "hit", "2xx")); got != want {
			t.Errorf("rule %q: %v, want %v", rule, got, want)
		}
	}
}
