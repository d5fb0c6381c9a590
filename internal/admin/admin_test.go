package admin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newAdmin(t *testing.T, o Options) *Admin {
	t.Helper()
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func ask(a *Admin, method, url string, header ...string) *http.Response {
	r := httptest.NewRequest(method, url, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, r)
	return w.Result()
}

func TestLoopbackWithoutToken(t *testing.T) {
	a := newAdmin(t, Options{Listen: "127.0.0.1:0", Gatherer: prometheus.NewRegistry()})
	for name, tc := range map[string]struct {
		url    string
		header []string
		want   int
	}{
		"address":                    {"http://127.0.0.1:8081/metrics", nil, 200},
		"name":                       {"http://localhost:8081/metrics", nil, 200},
		"IPv6":                       {"http://[::1]:8081/metrics", nil, 200},
		"rebound name":               {"http://evil.example/metrics", nil, 403},
		"rebound name with port":     {"http://evil.example:8081/healthz", nil, 403},
		"name that begins right":     {"http://localhost.evil.example/metrics", nil, 403},
		"address of another":         {"http://192.0.2.1:8081/metrics", nil, 403},
		"foreign origin":             {"http://127.0.0.1:8081/metrics", []string{"Origin", "https://evil.example"}, 403},
		"opaque origin":              {"http://127.0.0.1:8081/metrics", []string{"Origin", "null"}, 403},
		"second origin foreign":      {"http://127.0.0.1:8081/metrics", []string{"Origin", "http://127.0.0.1:8081", "Origin", "http://evil.example"}, 403},
		"other port is another site": {"http://127.0.0.1:8081/metrics", []string{"Origin", "http://127.0.0.1:9"}, 403},
		"own origin":                 {"http://127.0.0.1:8081/metrics", []string{"Origin", "http://127.0.0.1:8081"}, 200},
		"fetched by a page":          {"http://127.0.0.1:8081/metrics", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		"typed into a browser":       {"http://127.0.0.1:8081/metrics", []string{"Sec-Fetch-Site", "none"}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ask(a, "GET", tc.url, tc.header...).StatusCode; got != tc.want {
				t.Errorf("status %d, want %d", got, tc.want)
			}
		})
	}
}

func TestToken(t *testing.T) {
	a := newAdmin(t, Options{Listen: "0.0.0.0:0", Token: "s3cret", Gatherer: prometheus.NewRegistry()})
	const url = "http://proxy.example/metrics"
	for name, tc := range map[string]struct {
		header string
		want   int
	}{
		"right":              {"Bearer s3cret", 200},
		"scheme in any case": {"bearer s3cret", 200},
		"none":               {"", 401},
		"wrong":              {"Bearer s3cre", 401},
		"other scheme":       {"Basic s3cret", 401},
		"scheme alone":       {"Bearer", 401},
	} {
		t.Run(name, func(t *testing.T) {
			resp := ask(a, "GET", url, "Authorization", tc.header)
			if resp.StatusCode != tc.want {
				t.Errorf("status %d, want %d", resp.StatusCode, tc.want)
			}
			if challenge := resp.Header.Get("WWW-Authenticate"); (challenge != "") != (tc.want == 401) {
				t.Errorf("challenge %q", challenge)
			}
		})
	}
	if got := ask(a, "GET", "http://proxy.example/healthz").StatusCode; got != 200 {
		t.Errorf("health asks for a token: %d", got)
	}
}

func TestTokenRequired(t *testing.T) {
	for listen, want := range map[string]error{
		"127.0.0.1:0": nil, "localhost:0": nil, "[::1]:0": nil, "127.8.9.10:0": nil,
		":8081": ErrNoToken, "0.0.0.0:8081": ErrNoToken, "[::]:8081": ErrNoToken, "192.0.2.1:80": ErrNoToken, "host:80": ErrNoToken,
	} {
		if _, err := New(Options{Listen: listen}); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", listen, err, want)
		}
	}
}

func TestReadiness(t *testing.T) {
	ready, why := false, "starting"
	a := newAdmin(t, Options{Ready: func() (bool, string) { return ready, why }})
	for _, step := range []struct {
		ready bool
		why   string
		want  int
		body  string
	}{{false, "starting", 503, "starting\n"}, {true, "", 200, "ready\n"}, {false, "draining", 503, "draining\n"}} {
		ready, why = step.ready, step.why
		resp := ask(a, "GET", "http://127.0.0.1/readyz")
		b, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != step.want || string(b) != step.body {
			t.Errorf("%d %q, want %d %q", resp.StatusCode, b, step.want, step.body)
		}
		if got := ask(a, "GET", "http://127.0.0.1/healthz").StatusCode; got != 200 {
			t.Errorf("health %d while %q", got, why)
		}
	}
}

// What is degraded is told and leaves the process ready.
func TestReadinessTellsOfWhatIsDegraded(t *testing.T) {
	what := ""
	a := newAdmin(t, Options{Degraded: func() string { return what }})
	for _, step := range []struct{ what, want string }{
		{"", "ready\n"}, {"writes to the disk tier fail", "ready; degraded: writes to the disk tier fail\n"},
	} {
		what = step.what
		resp := ask(a, "GET", "http://127.0.0.1/readyz")
		b, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusOK || string(b) != step.want {
			t.Errorf("%d %q, want 200 %q", resp.StatusCode, b, step.want)
		}
	}
}

func TestPaths(t *testing.T) {
	with, without := newAdmin(t, Options{Pprof: true}), newAdmin(t, Options{})
	const base = "http://127.0.0.1"
	if got := ask(with, "GET", base+"/debug/pprof/heap").StatusCode; got != 200 {
		t.Errorf("profile: %d", got)
	}
	if got := ask(without, "GET", base+"/debug/pprof/heap").StatusCode; got != 404 {
		t.Errorf("profile that is off: %d", got)
	}
	resp := ask(without, "GET", base+"/v1/none")
	b, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 404 || string(b) != `{"error":{"status":404,"message":"no such path"}}`+"\n" {
		t.Errorf("%d %s", resp.StatusCode, b)
	}
	if got := ask(without, "POST", base+"/healthz").StatusCode; got != 405 && got != 404 {
		t.Errorf("POST to health: %d", got)
	}
}

func TestServing(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "answer"}, func() float64 { return 42 }))
	a := newAdmin(t, Options{Listen: "127.0.0.1:0", Gatherer: registry})
	a.Handle("POST /v1/echo", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { WriteJSON(w, 200, r.URL.Path) }))
	if a.Addr() != nil {
		t.Error("bound before Start")
	}
	if err := a.Start(); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	base := "http://" + a.Addr().String()
	if got := fetch(t, client, "GET", base+"/metrics"); !strings.Contains(got, "answer 42") {
		t.Errorf("metrics: %q", got)
	}
	if got := fetch(t, client, "POST", base+"/v1/echo"); got != "\"/v1/echo\"\n" {
		t.Errorf("mounted handler: %q", got)
	}
	if err := a.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := client.Get(base + "/healthz"); err == nil {
		t.Error("served after Close")
	}
}

func fetch(t *testing.T, c *http.Client, method, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
