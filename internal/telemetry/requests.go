package telemetry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/swrproxy/swrproxy/cache"
)

// classes are the values of the label "class", by the first digit of a status.
var classes = [...]string{"none", "1xx", "2xx", "3xx", "4xx", "5xx"}

func classOf(status int) int {
	if c := status / 100; c > 0 && c < len(classes) {
		return c
	}
	return 0
}

// requestMetrics are the metrics of finished requests.
type requestMetrics struct {
	total    *prometheus.CounterVec // rule, result, class
	bytes    *prometheus.CounterVec // result
	duration *durations
	reasons  *prometheus.CounterVec // reason
	stale    *prometheus.CounterVec // kind
	gone     prometheus.Counter

	byRule   atomic.Pointer[[]namedCounters]      // never changed, only replaced; the first is for rules that are not in it
	sent     [cache.NumResults]prometheus.Counter // of bytes
	byReason [256]lazyCounter
	byKind   [256]lazyCounter
}

// namedCounters has a rule's name beside its counters, so that a search does not touch those of others.
type namedCounters struct {
	rule string
	*ruleCounters
}

// ruleCounters are the counters of one rule.
type ruleCounters struct {
	cells [cache.NumResults][len(classes)]lazyCounter
	fills [numKinds][2]lazyCounter // by outcome, and by trigger: reader, background
}

// lazyCounter is a child that is resolved when first needed, so that combinations which never happen make no series.
type lazyCounter struct {
	p atomic.Pointer[prometheus.Counter]
}

// get returns the child. Two goroutines that come first at once resolve the same one.
func (l *lazyCounter) get(v *prometheus.CounterVec, labels ...string) prometheus.Counter {
	c := v.WithLabelValues(labels...)
	l.p.Store(&c)
	return c
}

func newRequestMetrics(rules []string) *requestMetrics {
	m := &requestMetrics{
		total:    counterVec("requests_total", "Requests by rule, cache result and status class.", "rule", "result", "class"),
		bytes:    counterVec("response_bytes_total", "Body bytes sent to clients, by cache result.", "result"),
		reasons:  counterVec("request_reasons_total", "Requests by the reason given in Cache-Status.", "reason"),
		stale:    counterVec("stale_served_total", "Requests answered with an expired response, by what allowed it.", "kind"),
		gone:     counter("clients_gone_total", "Requests whose client went away before its answer was whole."),
		duration: newDurations(),
	}
	m.setRules(rules)
	for r := range m.sent {
		m.sent[r] = m.bytes.WithLabelValues(cache.Result(r).String())
	}
	return m
}

// setRules makes counters for the rules there are now. Those of a rule that stays go on; those of one that went keep their series.
func (m *requestMetrics) setRules(rules []string) {
	byRule := make([]namedCounters, 0, len(rules)+1)
	for _, rule := range append([]string{""}, rules...) {
		counters := namedCounters{rule, &ruleCounters{}}
		if before := m.byRule.Load(); before != nil {
			if same := countersOf(*before, rule); same.rule == rule {
				counters = same
			}
		}
		byRule = append(byRule, counters)
	}
	m.byRule.Store(&byRule)
}

// countersOf finds a rule's counters, or the first. Comparing the names of a few rules takes less than a look into a map, and of many no more than
// finding the rule took.
func countersOf(byRule []namedCounters, rule string) namedCounters {
	for i := range byRule {
		if byRule[i].rule == rule {
			return byRule[i]
		}
	}
	return byRule[0]
}

func (m *requestMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.total, m.bytes, m.duration, m.reasons, m.stale, m.gone}
}

// count enters one request.
func (m *requestMetrics) count(ev *cache.ReadEvent) {
	result := min(ev.Result, cache.NumResults-1)
	m.cell(ev.Rule, result, classOf(ev.Status)).Inc()
	m.sent[result].Add(float64(ev.Bytes))
	m.duration.observe(result, ev.Took)
	m.countReason(ev, result)
	if ev.ClientGone {
		m.gone.Inc()
	}
}

func (m *requestMetrics) countReason(ev *cache.ReadEvent, result cache.Result) {
	if c := m.byReason[ev.Reason].p.Load(); c != nil {
		(*c).Inc()
	} else {
		m.byReason[ev.Reason].get(m.reasons, ev.Reason.String()).Inc()
	}
	if result != cache.ResultStale && result != cache.ResultStaleError {
		return
	}
	if c := m.byKind[ev.Reason].p.Load(); c != nil {
		(*c).Inc()
	} else {
		m.byKind[ev.Reason].get(m.stale, ev.Reason.String()).Inc()
	}
}

func (m *requestMetrics) cell(rule string, result cache.Result, class int) prometheus.Counter {
	counters := countersOf(*m.byRule.Load(), rule)
	cell := &counters.cells[result][class]
	if c := cell.p.Load(); c != nil {
		return *c
	}
	return cell.get(m.total, counters.rule, result.String(), classes[class])
}

// ReadDone counts a finished request and writes its line.
func (t *Telemetry) ReadDone(ev *cache.ReadEvent) {
	t.requests.count(ev)
	if t.access.Enabled && t.sampled(ev) {
		t.writeAccess(ev)
	}
}
