package main

import "slices"

// Kinds of traffic.
const (
	// hits must not reach the origin.
	hits kind = iota
	// misses must all reach the origin.
	misses
	// stale answers are served while their refresh hangs.
	stale
)

// kind is what the traffic of a scenario is. A closed enum.
type kind uint8

// scenario is one thing to measure.
type scenario struct {
	name, title string
	kind        kind
	path        string
	conns       int
	// streams is above 0 for HTTP/2 over TLS: requests at once on each connection.
	streams  int
	fields   []string // request header lines
	status   int
	subjects []string
	targets  []target
}

// target is a ratio of our rate to another's that is to be reached.
type target struct {
	than  string
	ratio float64
	// tail asks in addition for a p99 no longer than the other's.
	tail bool
}

// fresh is our own fresh hit, beside the stale one.
const fresh = ours + ", fresh"

var everybody = []string{nginx, varnish, ours}

var scenarios = []scenario{
	{
		name: "hit-1k", title: "1 KiB hit, 64 connections", path: "/1k", conns: 64, status: 200, subjects: everybody,
		targets: []target{{than: nginx, ratio: 1.4, tail: true}, {than: varnish, ratio: 2.2}},
	},
	{
		name: "hit-1k-512", title: "1 KiB hit, 512 connections", path: "/1k", conns: 512, status: 200, subjects: everybody,
		targets: []target{{than: nginx, ratio: 1.3}},
	},
	{
		name: "304", title: "304 to a matching If-None-Match", path: "/1k", conns: 64, status: 304, subjects: everybody,
		fields: []string{`If-None-Match: "v1"`}, targets: []target{{than: nginx, ratio: 1.4}},
	},
	{
		name: "hit-100k", title: "100 KiB hit", path: "/files/100k", conns: 64, status: 200, subjects: everybody,
		targets: []target{{than: nginx, ratio: 1.0}},
	},
	{
		name: "disk-10m", title: "10 MiB from disk", path: "/files/10m", conns: 16, status: 200, subjects: []string{nginx, oursDisk},
		targets: []target{{than: nginx, ratio: 0.95}},
	},
	{
		name: "stale", title: "stale hit while its refresh hangs", kind: stale, path: "/stale/", conns: 64, status: 200,
		subjects: []string{nginx, varnish, fresh, ours}, targets: []target{{than: fresh, ratio: 0.95}},
	},
	{
		name: "miss", title: "miss, 1 KiB, cacheable", kind: misses, path: "/miss/", conns: 64, status: 200, subjects: everybody,
		targets: []target{{than: nginx, ratio: 1.0}},
	},
	{
		name: "h2", title: "HTTP/2 over TLS, 1 KiB hit", path: "/1k", conns: 16, streams: 8, status: 200, subjects: []string{nginx, ours},
		targets: []target{{than: nginx}},
	},
}

// oursDisk is the proxy with its disk tier.
const oursDisk = ours + ", disk"

// ourSubject is which subject of a scenario the targets are about.
func (s *scenario) ourSubject() string { return s.subjects[len(s.subjects)-1] }

func scenarioNames() []string {
	var names []string
	for _, s := range scenarios {
		names = append(names, s.name)
	}
	return names
}

func known(name string) bool { return slices.Contains(scenarioNames(), name) }

// chosen are the scenarios named, all if none is.
func chosen(names []string) []scenario {
	if len(names) == 0 {
		return scenarios
	}
	var out []scenario
	for _, s := range scenarios {
		if slices.Contains(names, s.name) {
			out = append(out, s)
		}
	}
	return out
}
