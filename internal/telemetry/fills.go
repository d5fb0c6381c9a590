package telemetry

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/fill"
)

// fillMetrics are the metrics of fills.
type fillMetrics struct {
	total     *prometheus.CounterVec // rule, outcome, trigger
	responses *prometheus.CounterVec // class
	refreshed prometheus.Counter
	bytes     prometheus.Counter
	inFlight  prometheus.Gauge
	duration  *prometheus.HistogramVec // outcome
	notes     *prometheus.CounterVec   // kind

	byClass [len(classes)]lazyCounter
	byKind  [numKinds]atomic.Pointer[prometheus.Observer] // of duration
}

// numKinds is the number of outcomes that a fill may have.
const numKinds = int(fill.Announced) + 1

func newFillMetrics() fillMetrics {
	return fillMetrics{
		total: counterVec("fills_total",
			"Fills by rule, outcome, and whether a reader waited for it (reader) or not (background).", "rule", "outcome", "trigger"),
		responses: counterVec("fill_responses_total", "Answers of origins to fills, by status class; none if there was no answer.", "class"),
		refreshed: counter("fills_revalidated_total", "Fills that ended with the origin confirming the stored response."),
		bytes:     counter("fill_bytes_total", "Body bytes received by fills."),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "fills_in_flight", Help: "Fills that run now.",
		}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "fill_duration_seconds", Buckets: durationBuckets[4:], Help: "Time that fills took, by outcome.",
		}, []string{"outcome"}),
		notes: counterVec("notes_total", "Rare events that an operator should know of, by kind.", "kind"),
	}
}

func (m *fillMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.total, m.responses, m.refreshed, m.bytes, m.inFlight, m.duration, m.notes}
}

// FillStarted counts a fill as running.
func (t *Telemetry) FillStarted(*cache.FillEvent) { t.fills.inFlight.Inc() }

// FillDone counts a settled fill and warns of a failed one.
func (t *Telemetry) FillDone(ev *cache.FillEvent) {
	m := &t.fills
	m.inFlight.Dec()
	t.fillCounter(ev).Inc()
	m.classCounter(classOf(ev.Status)).Inc()
	m.bytes.Add(float64(ev.Bytes))
	m.timer(ev.Outcome.Kind).Observe(ev.Took.Seconds())
	if ev.Refreshed {
		m.refreshed.Inc()
	}
	t.logFill(ev, ev.Outcome.Kind.String())
}

// fillCounter is the child of total for this fill. A rule that is gone after a reload is looked up each time.
func (t *Telemetry) fillCounter(ev *cache.FillEvent) prometheus.Counter {
	kind := min(int(ev.Outcome.Kind), numKinds-1)
	rule := countersOf(*t.requests.byRule.Load(), ev.Rule)
	if rule.rule != ev.Rule {
		return t.fills.total.WithLabelValues(ev.Rule, ev.Outcome.Kind.String(), trigger(ev))
	}
	cell := &rule.fills[kind][0]
	if ev.Background {
		cell = &rule.fills[kind][1]
	}
	if c := cell.p.Load(); c != nil {
		return *c
	}
	return cell.get(t.fills.total, rule.rule, ev.Outcome.Kind.String(), trigger(ev))
}

func (m *fillMetrics) classCounter(class int) prometheus.Counter {
	if c := m.byClass[class].p.Load(); c != nil {
		return *c
	}
	return m.byClass[class].get(m.responses, classes[class])
}

func (m *fillMetrics) timer(kind fill.Kind) prometheus.Observer {
	cell := &m.byKind[min(int(kind), numKinds-1)]
	if o := cell.Load(); o != nil {
		return *o
	}
	o := m.duration.WithLabelValues(kind.String())
	cell.Store(&o)
	return o
}

func trigger(ev *cache.FillEvent) string {
	if ev.Background {
		return "background"
	}
	return "reader"
}

// logFill warns of a failure, once for each back-off step of its key; what ended as planned is for debugging.
func (t *Telemetry) logFill(ev *cache.FillEvent, outcome string) {
	e := t.logger.Debug()
	if failed(ev.Outcome) {
		held, ok := t.failing.allow(ev.Key, time.Now(), ev.Retry)
		if !ok {
			return
		}
		if e = t.logger.Warn(); held > 0 {
			e = e.Int("lines_held", held)
		}
	}
	if e == nil {
		return
	}
	e.Str("rule", ev.Rule).Str("url", t.redact(ev.URL)).Str("outcome", outcome).Str("trigger", trigger(ev))
	e.Int("status", ev.Status).Int64("bytes", ev.Bytes).Float64("took_ms", milliseconds(ev.Took))
	if ev.Outcome.Err != nil {
		e.Str("error", t.redact(ev.Outcome.Err.Error()))
	}
	if ev.Retry > 0 {
		e.Float64("retry_ms", milliseconds(ev.Retry))
	}
	e.Msg("fill " + outcome)
}

// failed tells whether an operator should hear of an outcome: the origin failed, or kept silent for a tenure. A fill that was displaced by a
// newer one did what it should, and a background refresh that found no place left is counted: under a crowd of stale reads there are thousands.
func failed(o fill.Outcome) bool {
	switch o.Kind {
	case fill.Failed, fill.TenureOver:
		return true
	case fill.Abandoned:
		return o.Err != nil && !errors.Is(o.Err, fill.ErrSuperseded) && !errors.Is(o.Err, fill.ErrClosed) && !errors.Is(o.Err, cache.ErrNoSlot)
	default:
		return false
	}
}

// Noted counts a note and writes it, at most one of its kind each second; every purge has its line.
func (t *Telemetry) Noted(n *cache.Note) {
	t.fills.notes.WithLabelValues(n.Kind.String()).Inc()
	if n.Purge != nil {
		t.purged(n.Purge, n.Err)
		return
	}
	held, ok := t.notes.allow(n.Kind, time.Now())
	if !ok {
		return
	}
	e := t.logger.WithLevel(levelOf(n.Kind)).Stringer("kind", n.Kind)
	if held > 0 {
		e = e.Int("lines_held", held)
	}
	if n.Key != "" {
		e = e.Str("key", t.readableKey(n.Key))
	}
	if n.Err != nil {
		e = e.Str("error", t.redact(n.Err.Error()))
	}
	e.Msg(t.redact(n.Text))
}
