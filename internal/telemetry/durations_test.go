package telemetry

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/swrproxy/swrproxy/cache"
)

// The histogram shows what the library's own would show of the same durations.
func TestDurations(t *testing.T) {
	d := newDurations()
	library := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "x", Buckets: durationBuckets[:]})
	random := rand.New(rand.NewPCG(1, 2))
	observe := func(took time.Duration) {
		d.observe(cache.ResultHit, took)
		library.Observe(took.Seconds())
	}
	for _, bound := range durationBounds {
		observe(bound - 1)
		observe(bound)
		observe(bound + 1)
		observe(time.Duration(random.Int64N(int64(2 * bound))))
	}
	observe(0)
	got, want := shown(t, d), shown(t, library)
	if hits := got["hit"]; math.Abs(hits.sum-want[""].sum) > 1e-6 {
		t.Errorf("%v s together, want %v", hits.sum, want[""].sum)
	}
	if diff := cmp.Diff(want[""].upTo, got["hit"].upTo); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if n := got["miss"].upTo[durationBuckets[len(durationBuckets)-1]]; len(got) != int(cache.NumResults) || n != 0 {
		t.Errorf("%d results, %d misses; want all and none", len(got), n)
	}
}

// histogram is one as it is shown. The number of all stands under +Inf.
type histogram struct {
	sum  float64
	upTo map[float64]uint64
}

// shown are a collector's histograms by result.
func shown(t *testing.T, c prometheus.Collector) map[string]histogram {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]histogram{}
	for _, m := range families[0].GetMetric() {
		result := ""
		for _, label := range m.GetLabel() {
			result = label.GetValue()
		}
		h := histogram{sum: m.GetHistogram().GetSampleSum(), upTo: map[float64]uint64{math.Inf(1): m.GetHistogram().GetSampleCount()}}
		for _, b := range m.GetHistogram().GetBucket() {
			h.upTo[b.GetUpperBound()] = b.GetCumulativeCount()
		}
		all[result] = h
	}
	return all
}
