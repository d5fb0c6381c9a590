package telemetry

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/swrproxy/swrproxy/cache"
)

// Kind is what a watched value is. A closed enum.
type Kind uint8

const (
	// KindUnknown is the zero value and refused.
	KindUnknown Kind = iota
	// KindGauge goes up and down.
	KindGauge
	// KindCounter only grows.
	KindCounter
)

// String returns the kind's name.
func (k Kind) String() string {
	switch k {
	case KindGauge:
		return "gauge"
	case KindCounter:
		return "counter"
	default:
		return "unknown"
	}
}

// Emit gives one value with its labels, in the order that Watched names them.
type Emit func(value float64, labels ...string)

// Watched is a metric whose values are asked for at each scrape, on the scraper's goroutine.
type Watched struct {
	// Name comes without the prefix "swrproxy_".
	Name, Help string
	Kind       Kind
	// Labels are the names of the labels.
	Labels []string
	// Collect calls its argument once for each combination of labels. Two scrapes may call it at once.
	Collect func(Emit)
}

// Watch registers a metric that is asked for at each scrape. A name or help that is taken by something else is an error.
func (t *Telemetry) Watch(w Watched) error {
	c := watcher{collect: w.Collect, desc: prometheus.NewDesc(namespace+"_"+w.Name, w.Help, w.Labels, nil)}
	switch w.Kind {
	case KindGauge:
		c.kind = prometheus.GaugeValue
	case KindCounter:
		c.kind = prometheus.CounterValue
	default:
		return fmt.Errorf("telemetry: watch %s: no kind", w.Name)
	}
	if err := t.registry.Register(c); err != nil {
		return fmt.Errorf("telemetry: watch %s: %w", w.Name, err)
	}
	return nil
}

// WatchGauge watches one number.
func (t *Telemetry) WatchGauge(name, help string, value func() float64) error {
	return t.Watch(Watched{Name: name, Help: help, Kind: KindGauge, Collect: func(emit Emit) { emit(value()) }})
}

type watcher struct {
	desc    *prometheus.Desc
	kind    prometheus.ValueType
	collect func(Emit)
}

// Describe implements prometheus.Collector.
func (w watcher) Describe(ch chan<- *prometheus.Desc) { ch <- w.desc }

// Collect implements prometheus.Collector.
func (w watcher) Collect(ch chan<- prometheus.Metric) {
	w.collect(func(value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(w.desc, w.kind, value, labels...)
	})
}

// storeValues are the metrics of a store, with the label "tier".
var storeValues = []struct {
	name, help string
	kind       Kind
	value      func(*cache.StoreStats) int64
}{
	{"store_records", "Records held.", KindGauge, func(s *cache.StoreStats) int64 { return s.Records }},
	{"store_bytes", "Bytes held, overhead included.", KindGauge, func(s *cache.StoreStats) int64 { return s.Bytes }},
	{"store_max_bytes", "The budget in bytes.", KindGauge, func(s *cache.StoreStats) int64 { return s.Max }},
	{"store_evicted_total", "Records dropped for room.", KindCounter, func(s *cache.StoreStats) int64 { return s.Evicted }},
	{"store_rejected_total", "Records refused admission.", KindCounter, func(s *cache.StoreStats) int64 { return s.Rejected }},
	{"store_expired_total", "Records dropped after their last use.", KindCounter, func(s *cache.StoreStats) int64 { return s.Expired }},
	{"store_purged_total", "Records deleted on request.", KindCounter, func(s *cache.StoreStats) int64 { return s.Purged }},
	{"store_damaged_total", "Records found broken.", KindCounter, func(s *cache.StoreStats) int64 { return s.Damaged }},
}

// WatchStores watches what stores count; the map's keys are the values of the label "tier", such as "memory". To be called once.
func (t *Telemetry) WatchStores(tiers map[string]cache.StatsSource) error {
	for _, v := range storeValues {
		err := t.Watch(Watched{Name: v.name, Help: v.help, Kind: v.kind, Labels: []string{"tier"}, Collect: func(emit Emit) {
			for tier, source := range tiers {
				stats := source.Stats()
				emit(float64(v.value(&stats)), tier)
			}
		}})
		if err != nil {
			return err
		}
	}
	return nil
}

// Target is an upstream's state: Up is false while it is marked as failing.
type Target struct {
	Origin, URL string
	Up          bool
}

// WatchTargets watches whether upstreams are up. To be called once.
func (t *Telemetry) WatchTargets(targets func() []Target) error {
	return t.Watch(Watched{
		Name: "origin_up", Help: "1 if the upstream is used, 0 while it is marked as failing.",
		Kind: KindGauge, Labels: []string{"origin", "url"}, Collect: func(emit Emit) {
			for _, target := range targets() {
				up := 0.0
				if target.Up {
					up = 1
				}
				emit(up, target.Origin, target.URL)
			}
		},
	})
}
