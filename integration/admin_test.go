package integration

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// Promise: an operator can see what the proxy does, and secrets do not show.

func TestHealthAndReadiness(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	p := before(t, o)
	for _, path := range []string{"/healthz", "/readyz"} {
		p.admin("GET", path, "")
	}
	g := newGate(t)
	o.on("/held", g.hold(page()))
	held := background(t, p, 1, request("GET", "/held"))
	o.await("/held", 1)
	p.terminate(syscall.SIGTERM)
	if !eventually(func() bool {
		status, _ := p.adminStatus("GET", "/readyz", "")
		return status == http.StatusServiceUnavailable
	}) {
		t.Error("still ready while draining")
	}
	p.admin("GET", "/healthz", "")
	g.open()
	held()
}

func TestMetricsCountWhatHappened(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/m", page("Cache-Control: max-age=60"))
	p := before(t, o)
	p.prime("/m")
	for range 4 {
		p.get("/m")
	}
	if !eventually(func() bool {
		return p.metric(metricRequests, "result=hit") == 4 && p.metric(metricRequests, "result=miss") == 1
	}) {
		t.Errorf("hits %v, misses %v, want 4, 1", p.metric(metricRequests, "result=hit"), p.metric(metricRequests, "result=miss"))
	}
	if got := p.metric(metricFills, "outcome=stored"); got != 1 {
		t.Errorf("fills stored %v, want 1", got)
	}
}

func TestProfilerIsOffUnlessAskedFor(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	off := before(t, o)
	if status, _ := off.adminStatus("GET", "/debug/pprof/", ""); status != http.StatusNotFound {
		t.Errorf("status %d, want 404", status)
	}
	text := strings.Replace(conf{Origin: o.url}.yaml(), "admin: { listen: 127.0.0.1:0 }", "admin: { listen: 127.0.0.1:0, pprof: true }", 1)
	file := t.TempDir() + "/pprof.yaml"
	writeFile(t, file, text)
	on := startArgs(t, 1, "serve", "--config", file)
	on.admin("GET", "/debug/pprof/", "")
}

func TestEveryRequestIsLoggedAndNoSecretIs(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/log", page("Cache-Control: max-age=60", "Set-Cookie: sid=secret-d")).on("/fails", answer(503, "no"))
	p := before(t, o)
	secrets := []string{"Authorization: Bearer secret-a", "Cookie: sid=secret-b", "Proxy-Authorization: Basic secret-c"}
	p.get("/log?token=secret-e", secrets...)
	p.get("/fails?token=secret-e", secrets...)
	about := func(path string) []map[string]any {
		return p.logged(func(e map[string]any) bool { return e["path"] == path && e["status"] != nil })
	}
	if !eventually(func() bool { return len(about("/log")) == 1 && len(about("/fails")) >= 1 }) {
		t.Errorf("%d lines for one request, %d for a failed one", len(about("/log")), len(about("/fails")))
	}
	if strings.Contains(p.Stderr().String(), "secret-") {
		t.Error("a secret is in the log")
	}
}
