package telemetry

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/swrproxy/swrproxy/cache"
)

// durations is a histogram of how long requests took, by cache result. To enter one takes a third of the time that it takes the library's own, whose sums
// and counts always fit each other; here one may show a request more than the other. Safe for concurrent use.
type durations struct {
	desc     *prometheus.Desc
	byResult [cache.NumResults]durationCounts
}

// durationCounts are the durations of one result.
type durationCounts struct {
	within [len(durationBuckets) + 1]atomic.Uint64 // by the first bucket that they fit in; the last is for those beyond all
	total  atomic.Int64                            // nanoseconds
}

// durationBuckets reach from a memory hit to a patient wait, in seconds.
var durationBuckets = [...]float64{
	.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30,
}

// durationBounds are the same as spans.
var durationBounds = boundsOf(durationBuckets)

func boundsOf(buckets [len(durationBuckets)]float64) (bounds [len(durationBuckets)]time.Duration) {
	for i, seconds := range buckets {
		bounds[i] = time.Duration(seconds*1e6+.5) * time.Microsecond
	}
	return bounds
}

func newDurations() *durations {
	return &durations{desc: prometheus.NewDesc(namespace+"_request_duration_seconds",
		"Time from a request's head to the last byte of its answer, by cache result.", []string{"result"}, nil)}
}

// observe enters one request.
func (d *durations) observe(result cache.Result, took time.Duration) {
	c := &d.byResult[result]
	at := 0
	for at < len(durationBounds) && took > durationBounds[at] {
		at++
	}
	c.within[at].Add(1)
	c.total.Add(int64(took))
}

// Describe is part of prometheus.Collector.
func (d *durations) Describe(to chan<- *prometheus.Desc) { to <- d.desc }

// Collect is part of prometheus.Collector.
func (d *durations) Collect(to chan<- prometheus.Metric) {
	for r := range d.byResult {
		to <- d.byResult[r].metric(d.desc, cache.Result(r))
	}
}

func (c *durationCounts) metric(desc *prometheus.Desc, result cache.Result) prometheus.Metric {
	upTo := make(map[float64]uint64, len(durationBuckets))
	var n uint64
	for i, bound := range durationBuckets {
		n += c.within[i].Load()
		upTo[bound] = n
	}
	n += c.within[len(durationBuckets)].Load()
	return prometheus.MustNewConstHistogram(desc, n, time.Duration(c.total.Load()).Seconds(), upTo, result.String())
}
