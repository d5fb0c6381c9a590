package app

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// purge sends PURGE to the public listener.
func (r *running) purge(path string) (int, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), "PURGE", r.URLs()[0]+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// PURGE never reaches the origin. Who may purge is a setting that a reload changes.
func TestPurgeMethodOfThePublicListener(t *testing.T) {
	o := newSource(t, cacheable)
	file := base + "origins: { app: { url: " + o.URL + " } }\n"
	r := start(t, file)
	defer r.stop()
	r.get("/a")
	for _, step := range []struct {
		allow  string
		status int
		says   string
		calls  int64 // of the origin, after one more read
	}{
		{"", 405, "PURGE is not allowed", 1},
		{"[192.0.2.1]", 405, "PURGE is not allowed", 1},
		{"[127.0.0.0/8]", 200, `"records":1`, 2},
		{"[]", 405, "PURGE is not allowed", 2},
	} {
		if step.allow != "" {
			r.file = file + fmt.Sprintf("purge: { allow: %s }\n", step.allow)
			if err := r.Reload(); err != nil {
				t.Fatal(err)
			}
		}
		if status, body := r.purge("/a"); status != step.status || !strings.Contains(body, step.says) {
			t.Errorf("allow %q: %d %s", step.allow, status, body)
		}
		r.get("/a")
		if n := o.calls.Load(); n != step.calls {
			t.Errorf("allow %q: %d calls, want %d", step.allow, n, step.calls)
		}
	}
}
