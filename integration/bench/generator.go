package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"time"
)

// load is what a generator did.
type load struct {
	requests int64
	rate     float64 // per second
	p50, p99 time.Duration
	p999     time.Duration // 0: the generator does not tell
	bad      int64         // errors, and answers that were not wanted
	busy     float64       // share of its core that the generator itself used, 0 if not known
}

// missScript asks for a path that nobody asked for before, each time.
const missScript = `local n = 0
function init(args) prefix = args[1] end
function request() n = n + 1; return wrk.format("GET", prefix .. n) end
`

// wrk runs wrk from its own core.
func wrk(ctx context.Context, core, conns int, d time.Duration, args ...string) (load, error) {
	cmd := []string{"-c", strconv.Itoa(core), "wrk", "-t1", "-c" + strconv.Itoa(conns), "-d" + d.Truncate(time.Second).String(), "--latency"}
	proc := exec.CommandContext(ctx, "taskset", append(cmd, args...)...)
	began := time.Now()
	out, err := proc.CombinedOutput()
	if err != nil {
		return load{}, fmt.Errorf("wrk: %w\n%s", err, out)
	}
	took := time.Since(began)
	l, err := parseWrk(string(out))
	l.busy = float64(proc.ProcessState.UserTime()+proc.ProcessState.SystemTime()) / float64(took)
	return l, err
}

var (
	wrkRate     = regexp.MustCompile(`Requests/sec:\s+([\d.]+)`)
	wrkRequests = regexp.MustCompile(`(\d+) requests in `)
	wrkQuantile = regexp.MustCompile(`(?m)^\s+(50|99)%\s+([\d.]+[a-z]+)`)
	wrkBad      = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
	wrkErrors   = regexp.MustCompile(`Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)`)
)

func parseWrk(out string) (load, error) {
	var l load
	rate, requests := wrkRate.FindStringSubmatch(out), wrkRequests.FindStringSubmatch(out)
	quantiles := wrkQuantile.FindAllStringSubmatch(out, -1)
	if rate == nil || requests == nil || len(quantiles) != 2 {
		return l, fmt.Errorf("wrk's output is not understood:\n%s", out)
	}
	l.rate, _ = strconv.ParseFloat(rate[1], 64)
	l.requests, _ = strconv.ParseInt(requests[1], 10, 64)
	var err1, err2 error
	l.p50, err1 = time.ParseDuration(quantiles[0][2])
	l.p99, err2 = time.ParseDuration(quantiles[1][2])
	for _, m := range [][]string{wrkBad.FindStringSubmatch(out), wrkErrors.FindStringSubmatch(out)} {
		for i := 1; i < len(m); i++ {
			n, _ := strconv.ParseInt(m[i], 10, 64)
			l.bad += n
		}
	}
	return l, firstOf(err1, err2)
}

// h2load runs h2load from its own core. It tells no quantiles.
func h2load(ctx context.Context, core, conns, streams int, d time.Duration, url string) (load, error) {
	cmd := exec.CommandContext(ctx, "taskset", "-c", strconv.Itoa(core), "h2load", "-t1", "-c"+strconv.Itoa(conns), "-m"+strconv.Itoa(streams),
		"-D", strconv.Itoa(int(d/time.Second)), url)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return load{}, fmt.Errorf("h2load: %w\n%s", err, out)
	}
	return parseH2load(string(out))
}

var (
	h2Rate = regexp.MustCompile(`finished in [\d.]+m?s, ([\d.]+) req/s`)
	h2Done = regexp.MustCompile(`(\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout`)
	h2Code = regexp.MustCompile(`status codes: \d+ 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx`)
)

func parseH2load(out string) (load, error) {
	rate, done, code := h2Rate.FindStringSubmatch(out), h2Done.FindStringSubmatch(out), h2Code.FindStringSubmatch(out)
	if rate == nil || done == nil || code == nil {
		return load{}, fmt.Errorf("h2load's output is not understood:\n%s", out)
	}
	var l load
	l.rate, _ = strconv.ParseFloat(rate[1], 64)
	l.requests, _ = strconv.ParseInt(done[1], 10, 64)
	for _, s := range append(done[2:], code[1:]...) {
		n, _ := strconv.ParseInt(s, 10, 64)
		l.bad += n
	}
	return l, nil
}
