package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// command runs a command line that ends by itself.
func command(args ...string) (status int, out, errs string) {
	var o, e bytes.Buffer
	status = run(args, process{out: &o, errs: &e})
	return status, o.String(), e.String()
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "swrproxy.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const good = "origins: { app: { url: http://127.0.0.1:3000 } }\n"

func TestCheck(t *testing.T) {
	status, out, errs := command("check", "--config", write(t, good+"rules: [{ ttl: 90s, override: true }]\n"), "--memory", "64MiB")
	if status != 0 {
		t.Fatalf("status %d: %s", status, errs)
	}
	for _, want := range []string{"url: http://127.0.0.1:3000", "ttl: 1m30s", "max: 64MiB", "tenure: 10s"} {
		if !strings.Contains(out, want) {
			t.Errorf("settings lack %q:\n%s", want, out)
		}
	}
	if !strings.HasPrefix(errs, "warning: ") || !strings.Contains(errs, "rules[0].override") {
		t.Errorf("standard error: %q", errs)
	}
}

func TestCheckOfABadFile(t *testing.T) {
	file := write(t, good+"memmory: 1\nfill: { tenure: soon }\n")
	status, out, errs := command("check", "--config", file)
	if status != 1 || out != "" {
		t.Errorf("status %d, output %q", status, out)
	}
	for _, want := range []string{file + ":2:1: memmory: ", "did you mean memory?", file + ":3:17: fill.tenure: "} {
		if !strings.Contains(errs, want) {
			t.Errorf("standard error lacks %q:\n%s", want, errs)
		}
	}
}

func TestCommandLineMistakes(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"nothing":         {nil, "there is no origin"},
		"unknown command": {[]string{"sevre"}, `unknown command "sevre"`},
		"unknown flag":    {[]string{"--orign", "http://a"}, "unknown flag: --orign"},
		"argument":        {[]string{"serve", "x"}, `unknown command "x"`},
		"bad flag value":  {[]string{"--origin", "http://a", "--ttl", "soon"}, `--ttl: "soon" is not a duration`},
		"no such file":    {[]string{"check", "--config", "/does/not/exist"}, "/does/not/exist"},
		"a directory":     {[]string{"--config", os.TempDir()}, "is a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			status, _, errs := command(c.args...)
			if status != 1 || !strings.Contains(errs, c.want) {
				t.Errorf("status %d, %q; want 1 and %q", status, errs, c.want)
			}
		})
	}
}

func TestHelpAndVersion(t *testing.T) {
	_, out, errs := command("--help")
	for _, want := range []string{"serve", "check", "demo", "version", "--config", "--origin", "--stale-if-error"} {
		if !strings.Contains(out+errs, want) {
			t.Errorf("help lacks %q", want)
		}
	}
	if status, out, _ := command("version"); status != 0 || !strings.HasPrefix(out, "swrproxy ") {
		t.Errorf("version: %d %q", status, out)
	}
}

// output is what a running command prints; it may be read meanwhile.
type output struct {
	mu   sync.Mutex // guards following
	text strings.Builder
	news chan struct{}
}

func newOutput() *output { return &output{news: make(chan struct{}, 1)} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.news <- struct{}{}:
	default:
	}
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// await returns the first submatch of pattern once the output has it.
func (o *output) await(t *testing.T, pattern string) string {
	t.Helper()
	limit := time.After(10 * time.Second)
	for {
		if m := regexp.MustCompile(pattern).FindStringSubmatch(o.String()); m != nil {
			return m[len(m)-1]
		}
		select {
		case <-o.news:
		case <-limit:
			t.Fatalf("no %q in:\n%s", pattern, o)
		}
	}
}

// live is a command that runs until it is told to stop.
type live struct {
	out, errs *output
	signals   chan os.Signal
	status    chan int
}

func launch(args ...string) *live {
	l := &live{out: newOutput(), errs: newOutput(), signals: make(chan os.Signal, 4), status: make(chan int, 1)}
	go func() { l.status <- run(args, process{out: l.out, errs: l.errs, signals: l.signals}) }()
	return l
}

func (l *live) get(t *testing.T, path string) string {
	t.Helper()
	url := l.out.await(t, `listening on (http://\S+)\n`)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := client.Get(url + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestServeUntilSIGTERM(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	defer origin.Close()
	for _, args := range [][]string{{}, {"serve"}} {
		l := launch(append(args, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--origin", origin.URL, "--ttl", "1m", "--memory", "16MiB")...)
		l.out.await(t, "ready\n")
		if body := l.get(t, "/"); body != "hello" {
			t.Errorf("body %q", body)
		}
		l.signals <- syscall.SIGTERM
		if status := <-l.status; status != 0 {
			t.Errorf("status %d:\n%s", status, l.errs)
		}
	}
}

func TestSIGHUPReloadsTheFile(t *testing.T) {
	page := func(text string) *httptest.Server {
		return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }))
	}
	one, two := page("one"), page("two")
	defer one.Close()
	defer two.Close()
	file := write(t, "origins: { app: { url: "+one.URL+" } }\n")
	l := launch("--config", file, "--listen", "127.0.0.1:0", "--memory", "16MiB")
	if body := l.get(t, "/"); body != "one" {
		t.Errorf("body %q", body)
	}
	if err := os.WriteFile(file, []byte("origins: { app: { url: "+two.URL+" } }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l.signals <- syscall.SIGHUP
	l.errs.await(t, "settings reloaded")
	if body := l.get(t, "/"); body != "two" {
		t.Errorf("after SIGHUP: body %q", body)
	}
	l.signals <- os.Interrupt
	if status := <-l.status; status != 0 {
		t.Errorf("status %d:\n%s", status, l.errs)
	}
}

func TestDemoCommand(t *testing.T) {
	l := launch("demo", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	l.out.await(t, "Ctrl-C ends it")
	if body := l.get(t, "/"); !strings.Contains(body, "swrproxy demo") {
		t.Errorf("index: %q", body)
	}
	l.signals <- syscall.SIGINT
	if status := <-l.status; status != 0 {
		t.Errorf("status %d:\n%s", status, l.errs)
	}
}

// stub is a proxy whose drain ends only with its context.
type stub struct {
	reloads  int
	draining chan struct{}
	failed   chan error
}

func newStub() *stub { return &stub{draining: make(chan struct{}), failed: make(chan error, 1)} }

func (s *stub) Reload() error     { s.reloads++; return nil }
func (s *stub) Err() <-chan error { return s.failed }
func (s *stub) Drain(ctx context.Context) error {
	close(s.draining)
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestASecondSignalCuts(t *testing.T) {
	s, signals := newStub(), make(chan os.Signal)
	done := make(chan error)
	go func() { done <- process{signals: signals}.await(s) }()
	signals <- syscall.SIGHUP
	signals <- syscall.SIGTERM
	<-s.draining
	signals <- syscall.SIGHUP // nothing to reload any more, and no reason to hurry
	signals <- syscall.SIGINT
	if err := <-done; !errors.Is(err, errSecondSignal) {
		t.Errorf("error %v", err)
	}
	if s.reloads != 1 {
		t.Errorf("%d reloads, want 1", s.reloads)
	}
}

// A third signal does not wait for a drain that is cut and still does not end.
func TestAThirdSignalEndsAtOnce(t *testing.T) {
	s, signals := stuck{newStub(), make(chan struct{})}, make(chan os.Signal)
	defer close(s.release)
	done := make(chan error)
	go func() { done <- process{signals: signals}.await(s) }()
	for range 3 {
		signals <- syscall.SIGTERM
	}
	if err := <-done; !errors.Is(err, errThirdSignal) {
		t.Errorf("error %v", err)
	}
}

// stuck is a proxy whose drain does not heed its context.
type stuck struct {
	*stub
	release chan struct{}
}

func (s stuck) Drain(context.Context) error { <-s.release; return nil }

func TestAListenersFailureEndsTheProcess(t *testing.T) {
	s, signals := newStub(), make(chan os.Signal)
	failure := errors.New("no more files")
	s.failed <- failure
	done := make(chan error)
	go func() { done <- process{signals: signals}.await(s) }()
	<-s.draining // what is under way still finishes
	signals <- syscall.SIGTERM
	if err := <-done; !errors.Is(err, failure) || !errors.Is(err, errSecondSignal) {
		t.Errorf("error %v, want both causes", err)
	}
}

func TestHealth(t *testing.T) {
	status := http.StatusOK
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer admin.Close()
	defer http.DefaultClient.CloseIdleConnections()
	addr := strings.TrimPrefix(admin.URL, "http://")
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("origins: {o: {url: http://127.0.0.1:1}}\nadmin: {listen: "+addr+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--admin", addr}, {"--admin", admin.URL}, {"-c", file}} {
		if code, _, errs := command(append([]string{"health"}, args...)...); code != 0 {
			t.Errorf("%v: status %d: %s", args, code, errs)
		}
	}
	status = http.StatusServiceUnavailable
	if code, _, errs := command("health", "--admin", addr); code != 1 || !strings.Contains(errs, "503") {
		t.Errorf("status %d: %s", code, errs)
	}
}
