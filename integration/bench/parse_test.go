package main

import (
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
			{Name: nginx, Samples: []sample{{Rate: 100, P99: time.Millisecond}}}, {Name: ours, Samples: []sample{{Rate: rate, P99: p99}}},
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
