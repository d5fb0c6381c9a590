package config

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// validate checks what no single key can tell.
func (s *source) validate(cfg *Config) {
	s.checkListen(cfg)
	s.checkAdmin(cfg)
	s.checkTiers(cfg)
	s.checkFill(cfg)
	s.checkOrigins(cfg)
	s.checkRules(cfg)
	s.checkTrusted(cfg)
	s.checkPurge(cfg)
}

func (s *source) checkListen(cfg *Config) {
	if len(cfg.Listen) == 0 {
		s.fail("listen", "no address to listen on", "write an address such as 127.0.0.1:8080, or remove the key for the default")
	}
	secure := false
	seen := map[string]bool{}
	for i, a := range cfg.Listen {
		path := fmt.Sprintf("listen[%d]", i)
		secure = secure || a.Scheme != "http"
		if a.Scheme == "https" && len(cfg.TLS) == 0 {
			s.fail(path, fmt.Sprintf("%s needs a certificate", a), "add tls: { cert: …, key: … }")
		}
		if a.Addr != "" && seen[a.Addr] && !strings.HasSuffix(a.Addr, ":0") {
			s.fail(path, fmt.Sprintf("%s is in the list twice", a.Addr), "remove one")
		}
		seen[a.Addr] = true
	}
	if len(cfg.TLS) > 0 && !secure {
		s.fail("tls", "no address in listen uses the certificate", "write listen addresses as https://host:port")
	}
}

func (s *source) checkAdmin(cfg *Config) {
	a := cfg.Admin
	if !a.Enabled() {
		const when, mend = "without admin.listen", "add admin.listen, such as 127.0.0.1:8081"
		s.noEffect(a.Token != "" && s.clean("admin.listen"), "admin.token", when, mend)
		s.noEffect(a.Pprof && s.clean("admin.listen"), "admin.pprof", when, mend)
		return
	}
	if a.Listen.Scheme == "https" {
		s.fail("admin.listen", "the admin listener speaks plain HTTP only", "write host:port, on loopback or a private network")
	}
	if !a.Listen.loopback() && a.Token == "" && s.clean("admin.token") {
		s.fail("admin.listen", fmt.Sprintf("%s can be reached from other machines and there is no token", a.Listen.Addr),
			"add admin.token: ${SWRPROXY_ADMIN_TOKEN}, or listen on 127.0.0.1")
	}
	for _, l := range cfg.Listen {
		if l.Addr == a.Listen.Addr && !strings.HasSuffix(l.Addr, ":0") {
			s.fail("admin.listen", fmt.Sprintf("%s is in listen as well", a.Listen.Addr), "give the admin listener a port of its own")
		}
	}
}

// Bounds that the parts themselves have, told here with their place in the file.
const (
	leastMemoryMax = 16 * KiB // below it a memory tier holds no record
	leastDiskMax   = 1 * MiB  // an empty disk tier takes about as much
	leastHeader    = 1 * KiB  // requests of ordinary browsers reach it
	mostHeader     = 16 * MiB // each connection may hold as much
)

func (s *source) checkTiers(cfg *Config) {
	s.checkSize("memory.max", cfg.Memory.Max, leastMemoryMax, math.MaxInt64)
	s.checkSize("disk.max", cfg.Disk.Max, leastDiskMax, math.MaxInt64)
	s.checkSize("http.max_header", cfg.HTTP.MaxHeader, leastHeader, mostHeader)
	s.noEffect(cfg.Disk.Path == "" && cfg.Disk.Max != defaultDiskMax && s.clean("disk"),
		"disk.max", "without disk.path", "add disk.path, or remove it")
	s.noEffect(cfg.Log.Access != "sample" && cfg.Log.Sample != defaultSample && s.clean("log"),
		"log.sample", "unless log.access is sample", "write access: sample, or remove it")
}

func (s *source) checkSize(path string, v, least, most Size) {
	switch {
	case !s.clean(path):
	case v < least:
		s.fail(path, fmt.Sprintf("%s is too small to work", v), "write at least "+least.String())
	case v > most:
		s.fail(path, fmt.Sprintf("%s is too large to be safe", v), "write at most "+most.String())
	}
}

// noEffect complains about a key that was changed and cannot do anything. Written-out defaults are no mistake, so that printed
// settings can be loaded again.
func (s *source) noEffect(useless bool, path, when, mend string) {
	if useless {
		s.fail(path, "has no effect "+when, mend)
	}
}

func (s *source) checkFill(cfg *Config) {
	f := cfg.Fill
	if f.Backoff.First > f.Backoff.Max && s.clean("fill.backoff") {
		s.fail("fill.backoff.first", fmt.Sprintf("%s is more than backoff.max, %s", f.Backoff.First, f.Backoff.Max), "the pause grows from first to max: swap or raise max")
	}
	if f.Keeper == KeeperFile && f.Path == "" && s.clean("fill") {
		s.fail("fill.keeper", "keeper: file needs a directory", "add fill.path: a directory that all processes of this host share")
	}
	other := f.Keeper != KeeperFile && s.clean("fill")
	const when, mend = "unless fill.keeper is file", "add keeper: file, or remove it"
	s.noEffect(other && f.Path != "", "fill.path", when, mend)
	s.noEffect(other && time.Duration(f.Stale) != defaultKeeperStale, "fill.stale", when, mend)
}

func (s *source) checkTrusted(cfg *Config) {
	for i, p := range cfg.TrustedProxies {
		if p.Bits() == 0 {
			s.warn(fmt.Sprintf("trusted_proxies[%d]", i), fmt.Sprintf("%s trusts everybody: any client can claim any address", p), "list the networks of your own proxies")
		}
	}
}

func (s *source) checkPurge(cfg *Config) {
	for i, p := range cfg.Purge.Allow {
		if p.Bits() == 0 {
			s.warn(fmt.Sprintf("purge.allow[%d]", i), fmt.Sprintf("%s lets everybody purge", p), "list the addresses of your own publishers")
		}
	}
}
