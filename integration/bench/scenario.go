package main

import (
	"slices"
	"time"
)

// Kinds of traffic.
const (
	// hits must not reach the origin.
	hits kind = iota
	// misses must all reach the origin.
	misses
	// stale answers are served while their refresh hangs.
	stale
	// stores are misses that are to be written to disk.
	stores
	// firstByte is one miss after the other, unloaded; what counts is when the first bytes come.
	firstByte
	// fullMemory is hits at a steady rate with one miss in twenty, on a proxy whose memory tier is full.
	fullMemory
	// crowdPurge is hits at a steady rate, before and from the moment on at which all that is asked for is purged softly.
	crowdPurge
)

// kind is what the traffic of a scenario is. A closed enum.
type kind uint8

// missing tells whether all requests of the traffic are misses.
func (k kind) missing() bool { return k == misses || k == stores || k == firstByte }

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
	// note is for the page: what to know to read the figures.
	note string
	// lasts is how long a run of it is, 0 for the bench's own duration.
	lasts time.Duration
	// byName leaves the scenario out unless it is asked for by name: it takes minutes.
	byName bool
}

// target is what is to be reached beside another subject: a ratio of rates, or one of extra, tailRatio and p99Ratio.
type target struct {
	than  string
	ratio float64
	// tail asks in addition for a p99 no longer than the other's.
	tail bool
	// extra is by how much our median may be longer.
	extra time.Duration
	// tailRatio is how many times as long our p99.9 may be, p99Ratio our p99.
	tailRatio, p99Ratio float64
}

// naturally is longer than the two minutes after which Go's runtime collects garbage in any case.
const naturally = 130 * time.Second

// fresh is our own fresh hit, beside the stale one.
const fresh = ours + ", fresh"

var everybody = []string{nginx, varnish, ours}

var scenarios = []scenario{
	{
		name: "hit-1k", title: "1 KiB hit, 64 connections", path: "/1k", conns: 64, status: 200, subjects: everybody,
		targets: []target{{than: nginx, ratio: 1.4, tail: true}, {than: varnish, ratio: 2.2}},
		note:    "Runs on this machine differ with its host: 1.33 to 1.50 ×, by CPU per request 1.44 to 1.57 ×. Near 170,000 requests/s the generator is at its own limit.",
	},
	{
		name: "hit-1k-512", title: "1 KiB hit, 512 connections", path: "/1k", conns: 512, status: 200, subjects: everybody,
		targets: []target{{than: nginx, ratio: 1.3}},
	},
	{
		name: "304", title: "304 to a matching If-None-Match", path: "/1k", conns: 64, status: 304, subjects: everybody,
		fields: []string{`If-None-Match: "v1"`}, targets: []target{{than: nginx, ratio: 1.4}},
		note: "Runs on this machine differ with its host: 1.24 to 1.41 ×, by CPU per request 1.35 to 1.52 ×. Near 170,000 requests/s the generator is at its own limit.",
	},
	{
		name: "hit-100k", title: "100 KiB hit", path: "/files/100k", conns: 64, status: 200, subjects: everybody,
		targets: []target{{than: nginx, ratio: 1.0}},
	},
	{
		name: "disk-10m", title: "10 MiB from disk", path: "/files/10m", conns: 1, status: 200, subjects: []string{nginx, oursDisk},
		targets: []target{{than: nginx, ratio: 0.95}},
		note:    "One connection: with more the generator's core, which copies every byte out of the kernel, is the limit, and the servers' are a quarter busy.",
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
		name: "store", title: "miss, 1 KiB, stored on disk", kind: stores, path: "/store/", conns: 64, status: 200, subjects: []string{nginx, oursDisk},
		targets: []target{{than: nginx, ratio: 1.0}},
		note: "*On disk* is how much of what was fetched had been written once nothing waited any more; what the queue had no room for is not. The CPU time of " +
			"writing what waited at a run's end is in the CPU per request. nginx writes each answer to a file before it goes on.",
	},
	{
		name: "first-byte", title: "first byte of a miss, one connection", kind: firstByte, path: "/first/", conns: 1, status: 200,
		subjects: []string{direct, nginx, varnish, ours}, targets: []target{{than: direct, extra: 200 * time.Microsecond}},
		note: "A client of this program's own, on blocking sockets, asks for one new path after the other; the clock runs from the write to the first bytes of the answer. " +
			"What is asked directly is an origin like the other, on the servers' core: every hop is one from core to core.",
	},
	{
		name: "gc", title: "hits beside 5 % misses, memory tier of 2 GiB full of 1 KiB records", kind: fullMemory, path: "/hot/0", conns: pacedConns, status: 200,
		subjects: []string{emptyTier, fullTier}, targets: []target{{than: emptyTier, tailRatio: 3}}, byName: true,
		note: "A client of this program's own makes 10,000 requests/s over 8 connections, one in twenty a miss that is stored, which evicts where the tier is full. " +
			"Latencies are those of hits, to the first byte, from when the request was due if an answer before it was late. In every run the proxy is made to collect its garbage once.",
	},
	{
		name: "gc-natural", title: "the same, when the proxy collects its garbage of its own accord", kind: fullMemory, path: "/hot/0", conns: pacedConns, status: 200,
		subjects: []string{emptyTier, fullTier}, targets: []target{{than: emptyTier, tailRatio: 3}}, byName: true, lasts: naturally,
		note: "As above, without the collections that the bench asks for. A run lasts so long that there is one in it at least, the one that Go makes after two minutes without.",
	},
	{
		name: "purge", title: "hits while 100,000 records are purged softly by their tag", kind: crowdPurge, path: "/crowd/0", conns: pacedConns, status: 200,
		subjects: []string{calm, purged}, targets: []target{{than: calm, p99Ratio: 2}}, byName: true,
		note: "A client of this program's own makes 2,000 requests/s over 8 connections for records of 1 KiB at random: for 3 s, and for 5 s from when the purge is asked for. " +
			"Each stale one is refreshed by an origin that takes 300 ms, of more than fill.concurrency wanted at once no more than that; a run in which it sees more is an error.",
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

// chosen are the scenarios named; if none is, all that need not be.
func chosen(names []string) []scenario {
	var out []scenario
	for _, s := range scenarios {
		if slices.Contains(names, s.name) || len(names) == 0 && !s.byName {
			out = append(out, s)
		}
	}
	return out
}

// scenarioOf finds a scenario by its name.
func scenarioOf(name string) scenario {
	return scenarios[slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })]
}
