package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/swrproxy/swrproxy/integration/proc"
)

// tenure is the one that all tests use: the shortest that is comfortably longer than any pause of a busy machine.
const tenure = 3 * time.Second

// stopLimit bounds a drain.
const stopLimit = 20 * time.Second

// conf is a configuration in pieces; the zero value of a piece means its default.
type conf struct {
	// Origin is the url of the origin named app.
	Origin string
	// Fill, Rules and Extra are YAML: the mapping of fill, the list of rules, further top-level keys.
	Fill, Rules, Extra string
}

func (c conf) yaml() string {
	fill := c.Fill
	if fill == "" {
		fill = fmt.Sprintf("{ tenure: %s, wait: 15s, backoff: { first: 1s, max: 60s } }", tenure)
	}
	var b strings.Builder
	b.WriteString("listen: 127.0.0.1:0\nadmin: { listen: 127.0.0.1:0 }\nlog: { level: info, format: json }\nmemory: { max: 64MiB }\n")
	fmt.Fprintf(&b, "fill: %s\n", fill)
	if c.Origin != "" {
		fmt.Fprintf(&b, "origins:\n  app: { url: %s }\n", c.Origin)
	}
	if c.Rules != "" {
		fmt.Fprintf(&b, "rules:\n%s\n", strings.TrimRight(c.Rules, "\n"))
	}
	return b.String() + c.Extra
}

// proxy is a running swrproxy.
type proxy struct {
	*proc.Process
	t *testing.T
	// file is its configuration.
	file string
	// mayFail is set by tests that kill the process, terminated once it was told to end: a second signal would cut it short.
	mayFail, terminated bool
}

// start runs the proxy with a configuration file until the end of the test, which asserts a clean end.
func start(t *testing.T, c conf) *proxy {
	t.Helper()
	file := filepath.Join(t.TempDir(), "swrproxy.yaml")
	writeFile(t, file, c.yaml())
	p := startArgs(t, 1, "serve", "--config", file)
	p.file = file
	return p
}

// startArgs runs the proxy with arguments of the test's own; it must open an admin listener.
func startArgs(t *testing.T, listeners int, args ...string) *proxy {
	t.Helper()
	p := &proxy{Process: launch(t, proc.Options{Args: args, Listeners: listeners, Admin: true}), t: t}
	t.Cleanup(p.finish)
	return p
}

// launch is the one way to run the binary. The process ends with the test, at the latest, and fails it with what no process of ours may write.
func launch(t *testing.T, o proc.Options) *proc.Process {
	t.Helper()
	o.Bin = binary
	p, err := proc.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		wantSound(t, p)
	})
	return p
}

// wantSound asserts that a process that has ended saw neither a data race nor a panic.
func wantSound(t *testing.T, p *proc.Process) {
	t.Helper()
	for _, report := range p.Races() {
		t.Errorf("the proxy has a data race:\n%s", report)
	}
	log := p.Stderr().String()
	for _, bad := range []string{"panic:", "goroutine 1 ["} {
		if strings.Contains(log, bad) {
			t.Errorf("the proxy's stderr contains %q", bad)
		}
	}
	if t.Failed() {
		t.Logf("the proxy's log, last lines:\n%s", tail(log, 40))
	}
}

// before starts a proxy in front of o with default settings.
func before(t *testing.T, o *origin) *proxy {
	t.Helper()
	return start(t, conf{Origin: o.url})
}

func (p *proxy) finish() {
	select {
	case <-p.Exited():
	default:
		p.end()
	}
	if code := p.ExitCode(); code != 0 && !p.mayFail {
		p.t.Errorf("proxy ended with %d, want 0", code)
	}
}

// end waits for the end of a process, and asks for it unless that was done.
func (p *proxy) end() {
	if !p.terminated {
		p.terminate(syscall.SIGTERM)
	}
	select {
	case <-p.Exited():
	case <-time.After(stopLimit):
		p.t.Errorf("proxy still running after %v, killed", stopLimit)
		p.Kill()
	}
}

// terminate sends a signal that ends the process and returns at once.
func (p *proxy) terminate(sig syscall.Signal) {
	p.t.Helper()
	p.terminated = true
	if err := p.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

func tail(text string, n int) string {
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// get fetches a path on a connection of its own.
func (p *proxy) get(path string, fields ...string) reply {
	p.t.Helper()
	return fetch(p.t, p.Addr(), request("GET", path, fields...))
}

// do sends any method without a body.
func (p *proxy) do(method, path string, fields ...string) reply {
	p.t.Helper()
	return fetch(p.t, p.Addr(), request(method, path, fields...))
}

// prime fetches a path once and asserts version 1 of a page.
func (p *proxy) prime(path string, fields ...string) {
	p.t.Helper()
	p.get(path, fields...).want(p.t, http.StatusOK, version(1, path))
}

// awaitBody reads path until it answers with body. It asserts that every answer on the way is a 200.
func (p *proxy) awaitBody(path, body string) reply {
	p.t.Helper()
	c := dial(p.t, p.Addr())
	defer c.Close()
	var last reply
	ok := eventually(func() bool {
		last = c.send(request("GET", path))
		return last.Err == nil && last.Body == body
	})
	if !ok {
		p.t.Fatalf("GET %s: %v, want body %q", path, last.problem(http.StatusOK, body), body)
	}
	return last
}

// eventually polls a condition until it holds or patience ends.
func eventually(cond func() bool) bool {
	for limit := time.Now().Add(patience); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
		if cond() {
			return true
		}
	}
	return false
}

// expire waits until a lifetime of one second, the shortest that HTTP can state, is surely over.
func expire() { time.Sleep(1100 * time.Millisecond) }

// logged returns the log entries for which keep is true.
func (p *proxy) logged(keep func(entry map[string]any) bool) []map[string]any {
	var out []map[string]any
	for _, line := range p.Stderr().All() {
		var entry map[string]any
		if json.Unmarshal([]byte(line), &entry) == nil && keep(entry) {
			out = append(out, entry)
		}
	}
	return out
}

// warnings returns the entries of level warn or above whose text contains about.
func (p *proxy) warnings(about string) []map[string]any {
	return p.logged(func(e map[string]any) bool {
		level, _ := e["level"].(string)
		text, _ := json.Marshal(e)
		return (level == "warn" || level == "error") && strings.Contains(string(text), about)
	})
}

// metric returns the sum of all samples of a metric whose labels contain all of the given ones ("name=value").
func (p *proxy) metric(name string, labels ...string) float64 {
	p.t.Helper()
	sum := 0.0
	for s := bufio.NewScanner(strings.NewReader(p.admin("GET", "/metrics", ""))); s.Scan(); {
		if v, ok := sample(s.Text(), name, labels); ok {
			sum += v
		}
	}
	return sum
}

func sample(line, name string, labels []string) (float64, bool) {
	rest, ok := strings.CutPrefix(line, name)
	if !ok || rest == "" || (rest[0] != '{' && rest[0] != ' ') {
		return 0, false
	}
	for _, l := range labels {
		k, v, _ := strings.Cut(l, "=")
		if !strings.Contains(rest, fmt.Sprintf("%s=%q", k, v)) {
			return 0, false
		}
	}
	v, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
	return v, err == nil
}

// admin asks the admin listener and returns the body of a 200.
func (p *proxy) admin(method, path, body string) string {
	p.t.Helper()
	status, text := p.adminStatus(method, path, body)
	if status != http.StatusOK {
		p.t.Fatalf("%s %s on the admin listener: status %d: %s", method, path, status, clip(text))
	}
	return text
}

func (p *proxy) adminStatus(method, path, body string) (int, string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.AdminURL()+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// command runs the binary to its end with arguments and returns exit status and output.
func command(t *testing.T, args ...string) (int, string, string) {
	t.Helper()
	p := launch(t, proc.Options{Args: args})
	select {
	case <-p.Exited():
	case <-time.After(patience):
		t.Fatalf("%v still running", args)
	}
	return p.ExitCode(), p.Stdout().String(), p.Stderr().String()
}

// awaitStatus reads path until it answers with status.
func (p *proxy) awaitStatus(path string, status int) reply {
	p.t.Helper()
	var last reply
	if !eventually(func() bool { last = p.get(path); return last.Err == nil && last.Status == status }) {
		p.t.Fatalf("GET %s: status %d, %v; want %d", path, last.Status, last.Err, status)
	}
	return last
}

// awaitWaiting blocks until n readers wait for somebody else's fill.
func (p *proxy) awaitWaiting(n int) {
	p.t.Helper()
	var have float64
	if !eventually(func() bool { have = p.metric(metricWaiting); return have == float64(n) }) {
		p.t.Fatalf("%s is %v, waiting for %d", metricWaiting, have, n)
	}
}

// awaitStored blocks until n fills have stored what they fetched and ended.
func (p *proxy) awaitStored(n int) {
	p.t.Helper()
	var have float64
	if !eventually(func() bool { have = p.metric(metricFills, "outcome=stored"); return have == float64(n) }) {
		p.t.Fatalf("%v fills stored, waiting for %d", have, n)
	}
}
