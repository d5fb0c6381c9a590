package archtest

import "strings"

// Module is the module's path.
const Module = "github.com/swrproxy/swrproxy"

// Edge allows the packages that match From to import those that match To. A pattern is a path below the module, "x/..." for
// x and all below it.
type Edge struct {
	From, To string
	// Reason is why this direction is right.
	Reason string
}

// Edges are all imports allowed between packages of this module, tests aside.
var Edges = []Edge{
	{"cmd/...", "internal/...", "the command line is parsed in one place and acted on in another"},
	{"internal/app", "internal/...", "app wires the house together"},
	{"internal/app", "cache/...", "app makes the engine and its stores"},
	{"internal/app", "fill/...", "app chooses the lease keeper"},
	{"internal/app", "origin", "app gives the engine its upstreams"},
	{"internal/demo", "internal/app", "the demo runs the same proxy"},
	{"internal/demo", "internal/config", "the demo writes its settings in Go"},

	{"internal/config", "policy", "settings are checked and handed over in the terms of the judge who uses them"},
	{"internal/server", "cache", "the hit path asks the engine for a prepared answer"},
	{"internal/server", "policy", "which answers have content is judged in one place"},
	{"internal/admin", "cache", "the admin API purges, explains and refreshes what the engine has"},
	{"internal/admin", "policy", "reasons are told with the section that states them"},
	{"internal/admin/client", "internal/admin", "both sides of the API share its types"},
	{"internal/admin/client", "internal/config", "a running proxy is found by its settings"},
	{"internal/telemetry", "cache", "an Observer turns the engine's events into metrics and lines"},
	{"internal/telemetry", "fill", "outcomes of fills are labels"},

	{"cache", "fill", "a fill needs a lease"},
	{"cache", "policy", "the engine asks policy for every judgement"},
	{"cache", "internal/hopbyhop", "what is stored has no fields of a connection"},
	{"cache/memory", "cache", "a Store keeps the engine's records"},
	{"cache/disk", "cache", "a Store keeps the engine's records"},
	{"cache/tiered", "cache", "a Store made of two"},
	{"cache/tiered", "cache/memory", "the first of the two"},
	{"cache/tiered", "cache/disk", "the second of the two"},
	{"cache/cachetest", "cache", "the contract suite of stores"},
	{"cache/...", "policy", "records carry policy's Life"},
	{"cache/...", "cache/internal/...", "shared by the stores, hidden from others"},

	{"fill/...", "fill", "keepers and their contract suite speak fill's terms"},
	{"fill/internal/...", "fill/filelease", "the proof runs every keeper"},
	{"fill/internal/proof", "fill/internal/harness", "one command prints what the harness measures"},

	{"origin", "internal/hopbyhop", "what is forwarded has no fields of a connection"},

	{"integration/...", "integration/proc", "tests and tools start the real binary"},
	{"integration/bench", "cache", "what purges take is measured without a socket between"},
	{"integration/bench", "cache/...", "the same, with either store"},
}

// Barred are imports that a package may not have at any distance, with the reason. A pattern ending in "/..." covers what is below.
var Barred = []Edge{
	{"policy", "net", "policy judges, it does not connect (net/http is allowed for its Header and Request types)"},
	{"fill", "net/http", "fill knows keys, tokens and time, no HTTP"},
	{"fill/filelease", "net/http", "fill knows keys, tokens and time, no HTTP"},
	{"cache", "github.com/rs/zerolog", "libraries report to an Observer, they do not log"},
	{"fill", "github.com/rs/zerolog", "libraries report, they do not log"},
	{"fill/filelease", "github.com/rs/zerolog", "libraries report, they do not log"},
	{"policy", "github.com/rs/zerolog", "libraries report, they do not log"},
	{"origin", "github.com/rs/zerolog", "libraries report, they do not log"},
	{"cache", "github.com/prometheus/client_golang/...", "metrics are the binary's"},
	{"origin", "github.com/prometheus/client_golang/...", "metrics are the binary's"},
}

// PolicyMay are the modules outside the standard library that policy may import.
var PolicyMay = map[string]string{
	"github.com/dunglas/httpsfv": "structured fields are parsed by a library made for them (RFC 9651)",
}

// matches tells whether a path matches a pattern.
func matches(pattern, path string) bool {
	if base, ok := strings.CutSuffix(pattern, "/..."); ok {
		return path == base || strings.HasPrefix(path, base+"/")
	}
	return path == pattern
}

// allowed returns the edge that allows from to import to.
func allowed(from, to string) (Edge, bool) {
	for _, e := range Edges {
		if matches(e.From, from) && matches(e.To, to) {
			return e, true
		}
	}
	return Edge{}, false
}
