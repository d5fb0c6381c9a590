package app

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/internal/server"
	"github.com/swrproxy/swrproxy/internal/telemetry"
)

// watch registers the metrics that are asked for at each scrape.
func (a *App) watch(*prometheus.Registry) error {
	err := a.telemetry.WatchGauge("waiting", "Readers that wait for somebody else's fill.",
		func() float64 { return float64(a.cache.Stats().Waiting) })
	if err != nil {
		return err
	}
	if err := a.telemetry.WatchStores(map[string]cache.StatsSource{"memory": storeStats{a.cache}}); err != nil {
		return err
	}
	err = a.telemetry.WatchTargets(func() []telemetry.Target { return a.pools.current().targets() })
	if err != nil {
		return err
	}
	return a.watchServer()
}

// storeStats gives the figures of a cache's store.
type storeStats struct{ cache *cache.Cache }

// Stats implements cache.StatsSource.
func (s storeStats) Stats() cache.StoreStats { return s.cache.Stats().Store }

// serverValues are the metrics of the listeners.
var serverValues = []struct {
	name, help string
	kind       telemetry.Kind
	value      func(*server.Stats) int64
}{
	{"connections", "Client connections that are open.", telemetry.KindGauge, func(s *server.Stats) int64 { return s.Open }},
	{"connections_total", "Client connections accepted.", telemetry.KindCounter, func(s *server.Stats) int64 { return s.Accepted }},
	{"short_path_total", "Requests answered from memory before net/http saw them.", telemetry.KindCounter, func(s *server.Stats) int64 { return s.Hits }},
	{"tls_handshakes_failed_total", "TLS handshakes that came to nothing.", telemetry.KindCounter, func(s *server.Stats) int64 { return s.FailedHandshakes }},
}

func (a *App) watchServer() error {
	for _, v := range serverValues {
		err := a.telemetry.Watch(telemetry.Watched{Name: v.name, Help: v.help, Kind: v.kind, Collect: func(emit telemetry.Emit) {
			stats := a.server.Stats()
			emit(float64(v.value(&stats)))
		}})
		if err != nil {
			return err
		}
	}
	return a.telemetry.Watch(telemetry.Watched{
		Name: "refused_total", Help: "Requests turned down before any handler saw them.", Kind: telemetry.KindCounter, Labels: []string{"reason"},
		Collect: func(emit telemetry.Emit) {
			for reason, n := range a.server.Stats().Refused {
				emit(float64(n), reason)
			}
		},
	})
}
