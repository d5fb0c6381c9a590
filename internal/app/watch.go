package app

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/swrproxy/swrproxy/cache/disk"
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
	err = a.telemetry.WatchGauge("invalidation_log_entries",
		"Invalidations that a look-up may have to consider: those that were not applied to the store yet, or that an older fill has to be compared with. At most 16,384.",
		func() float64 { return float64(a.cache.Stats().Invalidations) })
	if err != nil {
		return err
	}
	if err := a.telemetry.WatchStores(a.tiers.counted); err != nil {
		return err
	}
	err = a.telemetry.WatchTargets(func() []telemetry.Target { return a.pools.current().targets() })
	if err != nil {
		return err
	}
	return errors.Join(a.watchDisk(), a.watchServer())
}

// diskValues are the metrics that only a disk tier has.
var diskValues = []struct {
	name, help string
	kind       telemetry.Kind
	value      func(*disk.Metrics) int64
}{
	{"disk_queue_bytes", "Bytes that wait to be written.", telemetry.KindGauge, func(m *disk.Metrics) int64 { return m.Queued }},
	{"disk_queue_dropped_total", "Writes that the queue had no room for.", telemetry.KindCounter, func(m *disk.Metrics) int64 { return m.Dropped }},
	{"disk_failing", "1 while writes are suspended because one failed.", telemetry.KindGauge, func(m *disk.Metrics) int64 { return flag(m.Failing) }},
	{"disk_failures_total", "Writes that failed.", telemetry.KindCounter, func(m *disk.Metrics) int64 { return m.Failures }},
	{"disk_limit_bytes", "Bytes that the disk tier may use: its budget, or less while the file system has no more.", telemetry.KindGauge, func(m *disk.Metrics) int64 { return m.Limit }},
	{"disk_crowded_total", "Records evicted because the file system had less room than the budget.", telemetry.KindCounter, func(m *disk.Metrics) int64 { return m.Crowded }},
	{"disk_commits_total", "Transactions committed.", telemetry.KindCounter, func(m *disk.Metrics) int64 { return m.Commits }},
	{"disk_orphans_total", "Files without a record that were removed.", telemetry.KindCounter, func(m *disk.Metrics) int64 { return m.Orphans }},
	{"disk_file_bytes", "Size of the database file.", telemetry.KindGauge, func(m *disk.Metrics) int64 { return m.FileBytes }},
	{"disk_file_free_bytes", "Part of the database file that is free for reuse.", telemetry.KindGauge, func(m *disk.Metrics) int64 { return m.FreeBytes }},
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func (a *App) watchDisk() error {
	if a.tiers.disk == nil {
		return nil
	}
	for _, v := range diskValues {
		err := a.telemetry.Watch(telemetry.Watched{Name: v.name, Help: v.help, Kind: v.kind, Collect: func(emit telemetry.Emit) {
			m := a.tiers.disk.Metrics()
			emit(float64(v.value(&m)))
		}})
		if err != nil {
			return err
		}
	}
	return nil
}

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
