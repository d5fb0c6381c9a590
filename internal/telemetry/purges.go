package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/swrproxy/swrproxy/cache"
)

// purgeMetrics are the metrics of purges.
type purgeMetrics struct {
	total   *prometheus.CounterVec // selector, mode
	records prometheus.Counter
}

func newPurgeMetrics() purgeMetrics {
	return purgeMetrics{
		total: counterVec("purges_total",
			"Purges by selector (url, tag, prefix, glob, host, all; unsafe: what an unsafe request invalidated) and mode (hard, soft).", "selector", "mode"),
		records: counter("purged_records_total", "Stored responses that purges reached."),
	}
}

func (m *purgeMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.total, m.records}
}

// purged counts a purge and writes its line.
func (t *Telemetry) purged(ev *cache.PurgeEvent, err error) {
	mode := "hard"
	if ev.Soft {
		mode = "soft"
	}
	t.purges.total.WithLabelValues(ev.Selector, mode).Inc()
	t.purges.records.Add(float64(ev.Records))
	e := t.logger.Info()
	if err != nil {
		e = t.logger.Warn().Str("error", t.redact(err.Error()))
	}
	e.Str("by", ev.By).Str("selector", ev.Selector).Str("value", t.redact(ev.Value)).Str("mode", mode)
	if !ev.Counted {
		e.Bool("incomplete", true)
	}
	e.Int("records", ev.Records).Float64("took_ms", milliseconds(ev.Took)).Msg("purge")
}
