package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/swrproxy/swrproxy/internal/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait for something that happens soon.
const patience = 10 * time.Second

// source is an origin on loopback that counts what it is asked for.
type source struct {
	*httptest.Server
	calls atomic.Int64
	// answer writes everything but the count. Set before the first request.
	answer http.HandlerFunc
}

func newSource(t *testing.T, answer http.HandlerFunc) *source {
	t.Helper()
	s := &source{answer: answer}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.calls.Add(1)
		s.answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// cacheable answers with a page that is fresh for a minute and says which path it is.
func cacheable(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "max-age=60")
	fmt.Fprint(w, r.URL.Path)
}

// buffer is a log that may be read while it is written.
type buffer struct {
	mu sync.Mutex // guards following
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// entries are the JSON lines whose message is msg.
func (b *buffer) entries(msg string) []map[string]any {
	var out []map[string]any
	for line := range strings.Lines(b.String()) {
		var e map[string]any
		if json.Unmarshal([]byte(line), &e) == nil && e["message"] == msg {
			out = append(out, e)
		}
	}
	return out
}

// running is an App under test with what it wrote.
type running struct {
	*App
	t        *testing.T
	out, log *buffer
	// file is what Reload reads; set it before.
	file string
}

const base = "listen: 127.0.0.1:0\nmemory: { max: 16MiB }\nhttp: { drain_idle: 0 }\n"

func load(file string) (*config.Config, error) {
	return config.Parse(config.Options{File: "t.yaml", MemoryLimit: 1 << 30, Env: func(string) (string, bool) { return "", false }}, []byte(file))
}

// start runs an App with settings until the end of the test.
func start(t *testing.T, file string) *running {
	t.Helper()
	r := &running{t: t, out: &buffer{}, log: &buffer{}, file: file}
	cfg, err := load(file)
	if err != nil {
		t.Fatal(err)
	}
	r.App, err = New(cfg, Options{Out: r.out, Log: r.log, Version: "test", Load: func() (*config.Config, error) { return load(r.file) }})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	return r
}

// stop drains and asserts that everything ended by itself.
func (r *running) stop() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.Drain(ctx); err != nil {
		r.t.Errorf("drain: %v", err)
	}
}

// get fetches a path from the first listener and returns status, body and Cache-Status.
func (r *running) get(path string, fields ...string) (status int, body, cacheStatus string) {
	r.t.Helper()
	return fetch(r.t, r.URLs()[0]+path, fields...)
}

func fetch(t *testing.T, url string, fields ...string) (status int, body, cacheStatus string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(fields); i += 2 {
		req.Header.Set(fields[i], fields[i+1])
		if fields[i] == "Host" {
			req.Host = fields[i+1]
		}
	}
	tr := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: tr, Timeout: patience}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b), resp.Header.Get("Cache-Status")
}
