package app

import (
	"crypto/tls"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/internal/config"
	"github.com/swrproxy/swrproxy/internal/server"
	"github.com/swrproxy/swrproxy/internal/telemetry"
	"github.com/swrproxy/swrproxy/origin"
)

func mustLoad(t *testing.T, file string) *config.Config {
	t.Helper()
	cfg, err := load(file)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// What 0 means in a file reaches the packages as what it means to them.
func TestZeroIsTranslated(t *testing.T) {
	cfg := mustLoad(t, `
http: { body: 0, write: 0, drain_idle: 0 }
fill: { wait: 0, concurrency: 0, mark: 0 }
origins:
  app:
    url: http://h:1
    timeouts: { connect: 0, tls: 0, header: 0, idle_body: 0 }
    pool: { idle: 0, idle_timeout: 0, resolve: 0 }
    health: { max_fails: 0 }
`)
	wantFill := cache.FillConfig{
		Tenure: 10 * time.Second, Wait: -1, Concurrency: -1, MarkFor: -1, BackoffFirst: time.Second, BackoffMax: time.Minute,
	}
	if diff := cmp.Diff(wantFill, fillConfig(cfg.Fill)); diff != "" {
		t.Errorf("fill (-want +got):\n%s", diff)
	}
	o := originConfig("app", cfg.Origins["app"], cfg)
	want := origin.Config{
		Name: "app", URLs: []*url.URL{{Scheme: "http", Host: "h:1"}},
		Timeouts: origin.Timeouts{Connect: -1, TLS: -1, Header: -1, IdleBody: -1},
		Pool:     origin.PoolConfig{MaxIdle: -1, IdleTimeout: -1, ResolveEvery: -1},
		Health:   origin.Health{MaxFails: -1, FailFor: 10 * time.Second},
	}
	if diff := cmp.Diff(want.Timeouts, o.Timeouts); diff != "" {
		t.Errorf("timeouts (-want +got):\n%s", diff)
	}
	if o.Pool != want.Pool || o.Health != want.Health || o.Name != want.Name || *o.URLs[0] != *want.URLs[0] {
		t.Errorf("origin %+v, want %+v", o, want)
	}
	s := serverOptions(cfg)
	if s.ReadBodyIdle != -1 || s.WriteIdle != -1 || s.DrainIdle != -1 {
		t.Errorf("server %+v", s)
	}
}

func TestServerOptions(t *testing.T) {
	cfg := mustLoad(t, `
listen: ['http://:80', ':443', 'https://:8443']
tls: { cert: c.pem, key: k.pem }
http: { header: 1s, body: 2s, write: 3s, idle: 4s, max_header: 8KiB, max_conns: 5, drain: 6s, drain_idle: 7s, h2c: true }
origins: { app: { url: http://h } }
`)
	got := serverOptions(cfg)
	want := server.Options{
		Listen: []string{":443", ":8443"}, ListenPlain: []string{":80"},
		TLS:               &server.TLSOptions{Certificates: []server.CertificateFile{{CertFile: "c.pem", KeyFile: "k.pem"}}},
		ReadHeaderTimeout: time.Second, ReadBodyIdle: 2 * time.Second, WriteIdle: 3 * time.Second, IdleTimeout: 4 * time.Second,
		MaxHeaderBytes: 8 << 10, MaxConns: 5, DrainTimeout: 6 * time.Second, DrainIdle: 7 * time.Second, H2C: true,
	}
	if got.TLS == nil || got.TLS.Certificates[0] != want.TLS.Certificates[0] {
		t.Errorf("TLS %+v", got.TLS)
	}
	got.Logger, got.TLS, want.TLS = want.Logger, nil, nil
	if diff := cmp.Diff(want.Listen, got.Listen); diff != "" || got.ListenPlain[0] != ":80" {
		t.Errorf("addresses: %v and plain %v", got.Listen, got.ListenPlain)
	}
	got.Listen, got.ListenPlain, want.Listen, want.ListenPlain = nil, nil, nil, nil
	if diff := cmp.Diff(fieldsOf(want), fieldsOf(got)); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
}

// fieldsOf are the limits of server options, which cmp can compare.
func fieldsOf(o server.Options) map[string]any {
	return map[string]any{
		"header": o.ReadHeaderTimeout, "body": o.ReadBodyIdle, "write": o.WriteIdle, "idle": o.IdleTimeout,
		"max_header": o.MaxHeaderBytes, "max_conns": o.MaxConns, "drain": o.DrainTimeout, "drain_idle": o.DrainIdle, "h2c": o.H2C,
	}
}

func TestPlainListenersWithoutCertificates(t *testing.T) {
	cfg := mustLoad(t, "listen: ['http://:80', ':81']\norigins: { app: { url: http://h } }\n")
	if o := serverOptions(cfg); len(o.Listen) != 2 || o.TLS != nil || len(o.ListenPlain) != 0 {
		t.Errorf("options %+v", o)
	}
}

func TestTagFields(t *testing.T) {
	for text, want := range map[string][]string{
		"": {"Surrogate-Key", "Cache-Tag"}, "tag_fields: []\n": {}, "tag_fields: X-Tags\n": {"X-Tags"},
	} {
		cfg := mustLoad(t, text+"origins: { app: { url: http://h } }\n")
		if diff := cmp.Diff(want, cacheConfig(cfg, nil).TagFields); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestOriginHost(t *testing.T) {
	for text, want := range map[string]struct {
		host string
		mode origin.HostMode
	}{
		"preserve": {"", origin.HostPreserve}, "origin": {"", origin.HostOfURL}, "app.example.org": {"app.example.org", origin.HostPreserve},
	} {
		cfg := mustLoad(t, "origins: { app: { url: http://h, host: "+text+" } }\n")
		if o := originConfig("app", cfg.Origins["app"], cfg); o.Host != want.host || o.HostMode != want.mode {
			t.Errorf("%s: %q %v", text, o.Host, o.HostMode)
		}
	}
}

func TestAccess(t *testing.T) {
	for text, want := range map[string]telemetry.Access{
		"true":   {Enabled: true},
		"false":  {},
		"sample": {Enabled: true, Every: 100},
	} {
		cfg := mustLoad(t, "log: { access: "+text+" }\norigins: { app: { url: http://h } }\n")
		if got := accessOf(cfg.Log); got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
}

// KEY-03: the scheme that the origin is told is the one in the key.
func TestScheme(t *testing.T) {
	a := &App{}
	a.trusted.Store(&[]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")})
	for name, c := range map[string]struct {
		remote, proto string
		tls           bool
		want          string
	}{
		"plain":                      {"192.0.2.1:5", "", false, "http"},
		"TLS":                        {"192.0.2.1:5", "", true, "https"},
		"claimed by a stranger":      {"192.0.2.1:5", "https", false, "http"},
		"claimed down by a stranger": {"192.0.2.1:5", "http", true, "https"},
		"from a trusted proxy":       {"10.1.2.3:5", "https", false, "https"},
		"in capitals":                {"10.1.2.3:5", "HTTPS", false, "https"},
		"mapped address":             {"[::ffff:10.1.2.3]:5", "https", false, "https"},
		"trusted, TLS, says http":    {"10.1.2.3:5", "http", true, "http"},
		"list":                       {"10.1.2.3:5", "https, http", false, "https"},
		"nonsense":                   {"10.1.2.3:5", "gopher", false, "http"},
		"no address":                 {"@", "https", false, "http"},
	} {
		r := &http.Request{RemoteAddr: c.remote, Header: http.Header{}}
		if c.proto != "" {
			r.Header.Set("X-Forwarded-Proto", c.proto)
		}
		if c.tls {
			r.TLS = &tls.ConnectionState{}
		}
		if got := a.scheme(r); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestMemoryLimitFollowsTheBudget(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	cfg := mustLoad(t, "memory: { max: 64MiB }\norigins: { app: { url: http://h } }\n")
	if before != math.MaxInt64 {
		t.Logf("the process has a limit of its own: %d", before)
	}
	limit, err := SetMemoryLimit(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(192 << 20); before == math.MaxInt64 && limit != want {
		t.Errorf("limit %d, want %d", limit, want)
	}
}
