package integration

import (
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Promise: what is on disk survives a restart, with its age (DSK-07).
func TestRecordsSurviveARestart(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/kept", page("Cache-Control: max-age=600")).on("/stale", page("Cache-Control: max-age=1, stale-if-error=600"))
	c := conf{Origin: o.url, Extra: "disk: { path: " + t.TempDir() + "/store, max: 64MiB }\n"}
	first := start(t, c)
	first.prime("/kept")
	first.prime("/stale")
	if code, err := first.Stop(stopLimit); code != 0 || err != nil {
		t.Fatalf("first process ended with %d, %v", code, err)
	}
	o.stop()
	time.Sleep(1100 * time.Millisecond)
	second := start(t, c)
	r := second.get("/kept")
	r.want(t, http.StatusOK, version(1, "/kept"))
	r.wantHit(t, true)
	if age, err := strconv.Atoi(r.Header.Get("Age")); err != nil || age < 1 || age > 60 {
		t.Errorf("Age %q after a second", r.Header.Get("Age"))
	}
	second.get("/stale").want(t, http.StatusOK, version(1, "/stale"))
}

// A second process on the same store says so, and soon.
func TestASecondProcessOnTheSameStore(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	path := t.TempDir() + "/store"
	c := conf{Origin: o.url, Extra: "disk: { path: " + path + ", max: 64MiB }\n"}
	first := start(t, c)
	began := time.Now()
	code, out, errs := command(t, "serve", "--config", first.file)
	if code == 0 || !strings.Contains(out+errs, path) {
		t.Errorf("exit status %d, output:\n%s%s", code, out, errs)
	}
	if took := time.Since(began); took > within(2*time.Second) {
		t.Errorf("took %v to notice", took)
	}
}

// A second signal ends the wait for readers and loses nothing that was stored.
func TestASecondSignalKeepsWhatIsStored(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/kept", page("Cache-Control: max-age=600"))
	g := newGate(t)
	o.on("/never", g.hold(page()))
	c := conf{Origin: o.url, Extra: "disk: { path: " + t.TempDir() + "/store, max: 64MiB }\n"}
	first := start(t, c)
	first.mayFail = true // a cut end is told by its exit status
	stuck := background(t, first, 1, request("GET", "/never"))
	o.await("/never", 1)
	first.prime("/kept")
	first.terminate(syscall.SIGTERM)
	draining := func(entry map[string]any) bool { return entry["message"] == "draining" }
	if !eventually(func() bool { return len(first.logged(draining)) == 1 }) {
		t.Fatal("no drain")
	}
	began := time.Now()
	first.terminate(syscall.SIGTERM)
	if code := first.ExitCode(); code != 1 {
		t.Errorf("exit status %d, want 1", code)
	}
	if took := time.Since(began); took > within(2*time.Second) {
		t.Errorf("took %v to end", took)
	}
	stuck()
	o.stop()
	r := start(t, c).get("/kept")
	r.want(t, http.StatusOK, version(1, "/kept"))
	r.wantHit(t, true)
}
