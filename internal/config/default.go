package config

import (
	"time"
)

// Defaults that the parts of the proxy do not know themselves, or that check has to print. config.example.yaml repeats
// them, and a test compares the two.
const (
	defaultListen      = "127.0.0.1:8080"
	defaultDiskMax     = 10 * GiB
	defaultSample      = 100
	defaultKeeperStale = 10 * time.Second
	// fallbackMemory is memory.max where no limit of the process or machine can be learnt.
	fallbackMemory = 256 * MiB
	// leastMemory keeps the quarter rule from making a tier too small to be of use in tiny containers.
	leastMemory = 16 * MiB
)

// defaults returns the settings of an empty file. limit is how much memory the process may take, 0 if unknown.
func defaults(limit uint64) *Config {
	return &Config{
		Listen: []Address{{Addr: defaultListen}},
		HTTP: HTTP{
			Header: seconds(10), Body: seconds(60), Write: seconds(60), Idle: seconds(60),
			MaxHeader: 64 * KiB, Drain: seconds(30), DrainIdle: seconds(1),
		},
		Log:    Log{Level: "info", Format: "json", Access: "true", Sample: defaultSample},
		Memory: Memory{Max: memoryShare(limit)},
		Disk:   Disk{Max: defaultDiskMax},
		Object: Object{Max: 256 * MiB, Variants: 64},
		Fill: Fill{
			Tenure: seconds(10), Wait: seconds(15), Concurrency: 512,
			Backoff: Backoff{First: seconds(1), Max: seconds(60)},
			Mark:    seconds(10), Keeper: KeeperMemory, Stale: Duration(defaultKeeperStale),
		},
		TagFields: []FieldName{"Surrogate-Key", "Cache-Tag"},
		Origins:   map[string]Origin{},
	}
}

// memoryShare is a quarter of what the process may take.
func memoryShare(limit uint64) Size {
	if limit == 0 {
		return fallbackMemory
	}
	const most = 1 << 60 // beyond any machine, and far from overflow
	return max(Size(min(limit, most)/4).roundDown(), leastMemory)
}

// setDefaults is called on a fresh element of origins before it is decoded.
func (o *Origin) setDefaults() {
	*o = Origin{
		Host:     HostPreserve,
		Timeouts: OriginTimeouts{Connect: seconds(5), TLS: seconds(5), Header: seconds(30), IdleBody: seconds(30)},
		Pool:     OriginPool{Idle: 512, IdleTimeout: seconds(60), Resolve: seconds(30)},
		Health:   OriginHealth{MaxFails: 3, FailFor: seconds(10)},
	}
}

// setDefaults is called on a fresh element of rules before it is decoded.
func (r *Rule) setDefaults() {
	*r = Rule{
		Heuristic:         Heuristic{Fraction: 0.1, Max: Duration(24 * time.Hour)},
		SetCookie:         "refuse",
		RequestDirectives: "honour",
		Targets:           []FieldName{"CDN-Cache-Control", "swrproxy-Cache-Control"},
	}
}

func seconds(n int) Duration { return Duration(time.Duration(n) * time.Second) }
