package app

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/internal/telemetry"
)

// watch registers the metrics that are asked for at each scrape.
func (a *App) watch(*prometheus.Registry) error {
	steps := []func() error{
		func() error {
			return a.telemetry.WatchGauge("waiting", "Readers that wait for somebody else's fill.",
				func() float64 { return float64(a.cache.Stats().Waiting) })
		},
		func() error {
			return a.telemetry.WatchStores(map[string]cache.StatsSource{"memory": storeStats{a.cache}})
		},
		func() error {
			return a.telemetry.WatchTargets(func() []telemetry.Target { return a.pools.current().targets() })
		},
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// storeStats gives the figures of a cache's store.
type storeStats struct{ cache *cache.Cache }

// Stats implements cache.StatsSource.
func (s storeStats) Stats() cache.StoreStats { return s.cache.Stats().Store }
