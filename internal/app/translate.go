package app

import (
	"net/netip"
	"net/url"
	"time"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/internal/config"
	"github.com/swrproxy/swrproxy/internal/server"
	"github.com/swrproxy/swrproxy/internal/telemetry"
	"github.com/swrproxy/swrproxy/origin"
)

// In settings 0 means what it says: none, no limit, off. The packages below take 0 as "the default" and negative numbers as none, so
// that their zero values are usable. This file is the only place that translates.

// orNone translates a setting in which 0 means none.
func orNone[T ~int | ~int64](v T) T {
	if v == 0 {
		return -1
	}
	return v
}

func span(d config.Duration) time.Duration    { return time.Duration(d) }
func orNever(d config.Duration) time.Duration { return time.Duration(orNone(d)) }

func originConfig(name string, o config.Origin, cfg *config.Config) origin.Config {
	out := origin.Config{
		Name: name,
		URLs: urls(o.Servers()),
		Timeouts: origin.Timeouts{
			Connect: orNever(o.Timeouts.Connect), TLS: orNever(o.Timeouts.TLS),
			Header: orNever(o.Timeouts.Header), IdleBody: orNever(o.Timeouts.IdleBody),
		},
		Pool: origin.PoolConfig{
			MaxIdle: orNone(o.Pool.Idle), MaxConns: o.Pool.Max,
			IdleTimeout: orNever(o.Pool.IdleTimeout), ResolveEvery: orNever(o.Pool.Resolve),
		},
		Health: origin.Health{
			MaxFails: orNone(o.Health.MaxFails), FailFor: span(o.Health.FailFor), GatewayErrors: o.Health.GatewayErrors,
		},
		TLS: origin.TLS{
			CAFile: o.TLS.CA, CertFile: o.TLS.Cert, KeyFile: o.TLS.Key,
			ServerName: o.TLS.ServerName, InsecureSkipVerify: o.TLS.Insecure,
		},
		TrustedProxies:     append([]netip.Prefix(nil), cfg.TrustedProxies...),
		KeepOverrideFields: o.KeepOverrideFields,
	}
	switch o.Host {
	case config.HostPreserve:
	case config.HostOfOrigin:
		out.HostMode = origin.HostOfURL
	default:
		out.Host = string(o.Host)
	}
	return out
}

func urls(list []config.URL) []*url.URL {
	out := make([]*url.URL, 0, len(list))
	for _, u := range list {
		out = append(out, u.Parse())
	}
	return out
}

func cacheRules(cfg *config.Config, set poolSet) []cache.Rule {
	out := make([]cache.Rule, 0, len(cfg.Rules))
	for _, r := range cfg.Rules {
		out = append(out, cache.Rule{
			Name: r.Name, Match: r.Match.MatchSpec(), Key: r.Key.KeySpec(), Policy: r.Settings(),
			Upstream: set.transport(r.Origin), Origin: r.Origin, Pass: r.Pass,
		})
	}
	return out
}

// refillsOf is how many fills a purge may start at once behind its answer: few beside those of readers.
func refillsOf(f config.Fill) int {
	if f.Concurrency == 0 {
		return 0
	}
	return min(max(f.Concurrency/8, 1), 16)
}

func ruleNames(cfg *config.Config) []string {
	names := make([]string, 0, len(cfg.Rules))
	for _, r := range cfg.Rules {
		names = append(names, r.Name)
	}
	return names
}

func fillConfig(f config.Fill) cache.FillConfig {
	return cache.FillConfig{
		Tenure: span(f.Tenure), Wait: orNever(f.Wait), Concurrency: orNone(f.Concurrency),
		BackoffFirst: span(f.Backoff.First), BackoffMax: span(f.Backoff.Max),
		MarkFor: orNever(f.Mark), Timeout: span(f.Timeout),
	}
}

// cacheConfig is what settings alone say; store, keeper, observer and scheme are added to it.
func cacheConfig(cfg *config.Config, set poolSet) cache.Config {
	return cache.Config{
		Rules:     cacheRules(cfg, set),
		Fill:      fillConfig(cfg.Fill),
		Object:    cache.ObjectConfig{Max: int64(cfg.Object.Max), Variants: cfg.Object.Variants},
		TagFields: tagFields(cfg.TagFields),
	}
}

// tagFields is never nil, which would mean the default.
func tagFields(names []config.FieldName) []string {
	out := make([]string, 0, len(names))
	for _, n := range names {
		out = append(out, string(n))
	}
	return out
}

// splitListeners separates addresses that follow the certificates from those that are plain in any case.
func splitListeners(cfg *config.Config) (secure, plain []string) {
	for _, a := range cfg.Listen {
		if a.Scheme == "http" && len(cfg.TLS) > 0 {
			plain = append(plain, a.Addr)
			continue
		}
		secure = append(secure, a.Addr)
	}
	return secure, plain
}

// Copies of large bodies that the kernel sends without copying them again may take an eighth of the memory tier's budget beside it, at most
// 64 MiB.
const (
	twinShare = 8
	maxTwins  = 64 << 20
)

func serverOptions(cfg *config.Config) server.Options {
	h := cfg.HTTP
	o := server.Options{
		ReadHeaderTimeout: span(h.Header), ReadBodyIdle: orNever(h.Body), WriteIdle: orNever(h.Write), IdleTimeout: span(h.Idle),
		MaxHeaderBytes: int(h.MaxHeader), MaxConns: h.MaxConns,
		DrainTimeout: span(h.Drain), DrainIdle: orNever(h.DrainIdle), H2C: h.H2C,
		TwinBytes: max(min(int64(cfg.Memory.Max)/twinShare, maxTwins), 1),
	}
	o.Listen, o.ListenPlain = splitListeners(cfg)
	if len(cfg.TLS) > 0 {
		o.TLS = &server.TLSOptions{}
		for _, c := range cfg.TLS {
			o.TLS.Certificates = append(o.TLS.Certificates, server.CertificateFile{CertFile: c.Cert, KeyFile: c.Key})
		}
	}
	return o
}

func accessOf(l config.Log) telemetry.Access {
	out := telemetry.Access{Enabled: l.Access != "false", Query: l.Query}
	if l.Access == "sample" {
		out.Every = uint64(l.Sample)
	}
	return out
}
