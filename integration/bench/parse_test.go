package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const wrkOutput = `Running 1s test @ http://127.0.0.1:8080/1k
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.42ms    3.81ms  50.11ms   96.67%
    Req/Sec    82.59k     3.29k   88.31k    80.00%
  Latency Distribution
     50%  754.00us
     75%    0.93ms
     90%    1.29ms
     99%   21.96ms
  82345 requests in 1.01s, 99.12MB read
  Socket errors: connect 0, read 2, write 0, timeout 1
  Non-2xx or 3xx responses: 4
Requests/sec:  81530.69
Transfer/sec:     98.14MB
`

func TestParseWrk(t *testing.T) {
	got, err := parseWrk(wrkOutput)
	want := load{requests: 82345, rate: 81530.69, p50: 754 * time.Microsecond, p99: 21960 * time.Microsecond, bad: 7}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(load{})); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if _, err := parseWrk("unable to connect"); err == nil {
		t.Error("output without figures was accepted")
	}
}

func TestParseH2load(t *testing.T) {
	got, err := parseH2load(`finished in 2.00s, 20170.50 req/s, 22.01MB/s
requests: 40341 total, 40469 started, 40341 done, 40340 succeeded, 1 failed, 0 errored, 0 timeout
status codes: 40338 2xx, 0 3xx, 0 4xx, 2 5xx
`)
	want := load{requests: 40340, rate: 20170.5, bad: 3}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(load{})); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestParseStat(t *testing.T) {
	got, err := parseStat("42 (a) b (c)) S 7 42 42 0 -1 4194304 100 0 0 0 15 27 0 0 20 0 1 0 100 0 0")
	if want := (stat{parent: 7, ticks: 42}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if _, err := parseStat("42 (a) S 7"); err == nil {
		t.Error("a short line was accepted")
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 2, 9}, 3}} {
		if got := median(c.in); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.in, got, c.want)
		}
	}
}

// The ratio of a round is not disturbed by a round in which the machine was busy with something else.
func TestRatioByRound(t *testing.T) {
	a := series{Samples: []sample{{Rate: 100}, {Rate: 10}, {Rate: 110}}}
	b := series{Samples: []sample{{Rate: 50}, {Rate: 5}, {Rate: 50}}}
	if got := ratio(a, b, rateOf); got != 2 {
		t.Errorf("ratio %v, want 2", got)
	}
}

func TestJudge(t *testing.T) {
	s := scenario{subjects: []string{nginx, ours}, targets: []target{{than: nginx, ratio: 1.4, tail: true}, {than: varnish, ratio: 2}}}
	run := func(rate float64, p99 time.Duration) result {
		return result{Subjects: []series{
			{Name: nginx, Samples: []sample{{Rate: 100, Busy: 1, P99: time.Millisecond}}}, {Name: ours, Samples: []sample{{Rate: rate, Busy: 1, P99: p99}}},
		}}
	}
	for _, c := range []struct {
		name   string
		res    result
		missed bool
	}{
		{"reached", run(150, time.Millisecond), false},
		{"too slow", run(139, time.Millisecond), true},
		{"long tail", run(150, 2*time.Millisecond), true},
	} {
		got := judge(s, c.res)
		if got[0].missed() != c.missed {
			t.Errorf("%s: missed %v, want %v", c.name, got[0].missed(), c.missed)
		}
		busy := c.res
		busy.Subjects[0].Samples[0].Others = 1
		if judge(s, busy)[0].missed() || strings.HasPrefix(judge(s, busy)[0].verdict(), "reached") {
			t.Errorf("%s: judged although the machine was busy", c.name)
		}
		if got[1].measured || got[1].missed() {
			t.Errorf("%s: a server that did not run was judged", c.name)
		}
	}
}

// Where one of the cores had nothing to do, CPU per request decides, whichever server it was.
func TestJudgeByCPU(t *testing.T) {
	s := scenario{subjects: []string{nginx, ours}, targets: []target{{than: nginx, ratio: 1}}}
	for _, c := range []struct {
		name          string
		theirs, mine  float64 // busy
		ourCPU        time.Duration
		missed, byCPU bool
	}{
		{"both busy", 0.95, 0.95, 3, false, false},
		{"theirs idle, ours costs more", 0.3, 0.95, 3, true, true},
		{"ours idle, ours costs more", 0.95, 0.3, 3, true, true},
		{"theirs idle, ours costs less", 0.3, 0.95, 1, false, true},
	} {
		j := judge(s, result{Subjects: []series{
			{Name: nginx, Samples: []sample{{Rate: 100, Busy: c.theirs, CPU: 2}}}, {Name: ours, Samples: []sample{{Rate: 150, Busy: c.mine, CPU: c.ourCPU}}},
		}})[0]
		if j.missed() != c.missed || strings.HasSuffix(j.verdict(), "by CPU") != c.byCPU {
			t.Errorf("%s: %s, missed %v", c.name, j.verdict(), j.missed())
		}
	}
}

func TestWaited(t *testing.T) {
	for _, c := range []struct {
		busy, generator float64
		want            bool
	}{
		{0.85, 0, true}, {0.99, 0, false}, {0.94, 0.85, false}, {0.94, 0.98, true}, {0.99, 0.98, false},
	} {
		if got := (sample{Busy: c.busy, Generator: c.generator}).waited(); got != c.want {
			t.Errorf("server %v, generator %v: %t", c.busy, c.generator, got)
		}
	}
}

func TestJudgeLatency(t *testing.T) {
	s := scenario{subjects: []string{direct, ours}, targets: []target{{than: direct, extra: 200}, {than: direct, tailRatio: 3}}}
	for _, c := range []struct {
		name         string
		p50, p999    time.Duration
		extra, tails bool // missed
	}{
		{"both reached", 300, 3000, false, false},
		{"median too long", 301, 3000, true, false},
		{"tail too long", 300, 3001, false, true},
	} {
		got := judge(s, result{Subjects: []series{
			{Name: direct, Samples: []sample{{P50: 100, P999: 1000}}}, {Name: ours, Samples: []sample{{P50: c.p50, P999: c.p999}}},
		}})
		if got[0].missed() != c.extra || got[1].missed() != c.tails {
			t.Errorf("%s: missed %v and %v", c.name, got[0].missed(), got[1].missed())
		}
	}
}

func TestParseMetric(t *testing.T) {
	text := []byte("# TYPE a gauge\na{tier=\"disk\"} 1.5e+06\na{tier=\"memory\"} 2\n")
	if got, err := parseMetric(text, `a{tier="disk"}`); err != nil || got != 1.5e6 {
		t.Error(got, err)
	}
	if _, err := parseMetric(text, "a"); err == nil {
		t.Error("a metric without its labels was found")
	}
}

// The clients of this program's own read an answer that comes in pieces to its end, and know hits.
func TestClient(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/gone" {
			w.WriteHeader(http.StatusGone)
			return
		}
		w.Header().Set("Cache-Status", "swrproxy; "+r.URL.Path[1:])
		w.Header().Set("Content-Length", "200000")
		for range 2 {
			_, _ = w.Write(make([]byte, 100000))
			_ = http.NewResponseController(w).Flush()
		}
	}))
	defer srv.Close()
	c, err := dial(srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	for _, hit := range []bool{true, false} {
		path := map[bool]string{true: "/hit", false: "/fwd=miss"}[hit]
		if a, err := c.get(path); err != nil || a.hit != hit || a.first.Before(a.sent) {
			t.Errorf("%s: %+v, %v", path, a, err)
		}
	}
	if _, err := c.get("/gone"); err == nil {
		t.Error("a 410 was taken for an answer")
	}
}

// One request in twenty is a miss, on every connection.
func TestPacedMisses(t *testing.T) {
	misses := map[int]int{}
	const requests = 16 * oneMissIn * pacedConns
	for n := range requests {
		if strings.HasPrefix(fullTierPath(1, n), "/cold/") {
			misses[n%pacedConns]++
		}
	}
	sum := 0
	for _, n := range misses {
		sum += n
	}
	if sum != requests/oneMissIn || len(misses) != pacedConns {
		t.Errorf("%d of %d requests are misses, on %d of %d connections", sum, requests, len(misses), pacedConns)
	}
}

func TestQuantiles(t *testing.T) {
	var spans []time.Duration
	for i := range 1000 {
		spans = append(spans, time.Duration(1000-i))
	}
	want := load{requests: 1000, rate: 500, p50: 501, p99: 991, p999: 1000}
	if diff := cmp.Diff(want, quantiles(spans, 2*time.Second), cmp.AllowUnexported(load{})); diff != "" {
		t.Error(diff)
	}
	if got := quantiles(nil, time.Second); got != (load{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

// Benchmarks of every package on the way of a request are among those compared with the base.
func TestMicroCovers(t *testing.T) {
	packages, err := withBenchmarks(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range []string{"cache", "cache/memory", "cache/disk", "policy", "fill", "origin", "internal/server", "internal/telemetry"} {
		if !slices.Contains(packages, "./"+pkg) {
			t.Errorf("%s has no benchmarks", pkg)
		}
	}
}

func TestTrafficIsWhatItSays(t *testing.T) {
	for _, c := range []struct {
		name              string
		kind              kind
		requests, fetched int64
		ok                bool
	}{
		{"all hits", hits, 100000, 0, true},
		{"hits that were not", hits, 100000, 50000, false},
		{"all misses", misses, 1000, 1000, true},
		{"misses that were hits", misses, 1000, 10, false},
		{"stores that were hits", stores, 1000, 10, false},
		{"one miss in twenty", fullMemory, 1000, 50, true},
		{"hot records were evicted", fullMemory, 1000, 500, false},
	} {
		if err := kept(c.kind, c.requests, c.fetched); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestConfigurations(t *testing.T) {
	if got := fill("listen PLAIN; root RAM/x", map[string]string{"PLAIN": "127.0.0.1:1", "RAM": "/r"}); got != "listen 127.0.0.1:1; root /r/x" {
		t.Error(got)
	}
	if got := without("a: 1\ndisk: x\nb: 2\n", "disk:"); got != "a: 1\nb: 2\n" {
		t.Errorf("%q", got)
	}
	if got := string(benchmarkLines([]byte("goos: linux\nPASS\nBenchmarkHit 1 2 ns/op\nok x 1s\n"))); got != "goos: linux\nBenchmarkHit 1 2 ns/op\n" {
		t.Errorf("%q", got)
	}
}
