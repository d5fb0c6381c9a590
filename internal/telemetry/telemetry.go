package telemetry

import (
	"errors"
	"runtime"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/rs/zerolog"
	"github.com/swrproxy/swrproxy/cache"
)

// Options are the settings of a [Telemetry].
type Options struct {
	// Logger gets the lines. The zero value drops them.
	Logger zerolog.Logger
	// Registry gets the metrics. Nil makes one of its own, which nobody sees.
	Registry *prometheus.Registry
	// Rules are the names of the cache's rules, the values of the label "rule". Requests of others are counted under "".
	Rules []string
	// Version is shown by swrproxy_build_info.
	Version string
	// Access says which requests are logged.
	Access Access
}

// Access says which requests get a log line and what is in it.
type Access struct {
	// Enabled writes lines at all.
	Enabled bool
	// Every writes one line for so many requests; errors are always written. 0 and 1 mean every request.
	Every uint64
	// Query includes query strings, which often hold secrets.
	Query bool
}

// Telemetry counts and logs. It implements [cache.Observer]. Safe for concurrent use.
type Telemetry struct {
	logger zerolog.Logger
	access Access
	seen   atomic.Uint64 // requests, for sampling

	requests *requestMetrics
	fills    fillMetrics
	purges   purgeMetrics
	registry *prometheus.Registry
	failing  *keyLimit
	notes    noteLimit
}

var _ cache.Observer = (*Telemetry)(nil)

// New registers the metrics.
func New(o Options) (*Telemetry, error) {
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	t := &Telemetry{
		logger: o.Logger, access: o.Access, registry: o.Registry,
		requests: newRequestMetrics(o.Rules),
		fills:    newFillMetrics(),
		purges:   newPurgeMetrics(),
		failing:  newKeyLimit(maxFailing),
	}
	t.access.Every = max(t.access.Every, 1)
	own := append(t.requests.collectors(), t.fills.collectors()...)
	own = append(own, t.purges.collectors()...)
	own = append(own, buildInfo(o.Version), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	var errs []error
	for _, c := range own {
		errs = append(errs, o.Registry.Register(c))
	}
	return t, errors.Join(errs...)
}

// SetRules tells the names of the rules from now on, after a reload. The counters of rules that stay go on.
func (t *Telemetry) SetRules(names []string) { t.requests.setRules(names) }

const namespace = "swrproxy"

func buildInfo(version string) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info", Help: "Always 1; the labels say what runs.",
		ConstLabels: prometheus.Labels{"version": version, "go": runtime.Version()},
	})
	g.Set(1)
	return g
}

func counterVec(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
}
