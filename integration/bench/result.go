package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// result is what a scenario gave.
type result struct {
	Scenario string    `json:"scenario"`
	At       time.Time `json:"at"`
	Rounds   int       `json:"rounds"`
	Seconds  float64   `json:"seconds"`
	Subjects []series  `json:"subjects"`
}

// series is one server's samples, by round.
type series struct {
	Name    string   `json:"name"`
	Samples []sample `json:"samples"`
}

// sample is one run.
type sample struct {
	Rate float64       `json:"rate"`
	P50  time.Duration `json:"p50"` // 0: the generator does not tell
	P99  time.Duration `json:"p99"`
	// CPU is per request, Busy the share of the core that was used.
	CPU  time.Duration `json:"cpu"`
	Busy float64       `json:"busy"`
	// Others is what processes that have no part in this used, in cores.
	Others float64 `json:"others"`
}

// median of the middle two, for an even number.
func median[T int64 | float64 | time.Duration](values []T) T {
	if len(values) == 0 {
		return 0
	}
	v := slices.Sorted(slices.Values(values))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// column picks one figure of every sample.
func column[T any](samples []sample, pick func(sample) T) []T {
	out := make([]T, 0, len(samples))
	for _, s := range samples {
		out = append(out, pick(s))
	}
	return out
}

// middle is the sample of medians.
func (s series) middle() sample {
	return sample{
		Rate:   median(column(s.Samples, func(s sample) float64 { return s.Rate })),
		P50:    median(column(s.Samples, func(s sample) time.Duration { return s.P50 })),
		P99:    median(column(s.Samples, func(s sample) time.Duration { return s.P99 })),
		CPU:    median(column(s.Samples, func(s sample) time.Duration { return s.CPU })),
		Busy:   median(column(s.Samples, func(s sample) float64 { return s.Busy })),
		Others: median(column(s.Samples, func(s sample) float64 { return s.Others })),
	}
}

func (r result) of(name string) (series, bool) {
	i := slices.IndexFunc(r.Subjects, func(s series) bool { return s.Name == name })
	if i < 0 {
		return series{}, false
	}
	return r.Subjects[i], true
}

// ratio is the median of the rounds' ratios of one figure.
func ratio(a, b series, pick func(sample) float64) float64 {
	var ratios []float64
	for i := range min(len(a.Samples), len(b.Samples)) {
		ratios = append(ratios, pick(a.Samples[i])/pick(b.Samples[i]))
	}
	return median(ratios)
}

func rateOf(s sample) float64 { return s.Rate }

// perCPU is requests in a second of CPU time.
func perCPU(s sample) float64 { return 1 / max(s.CPU.Seconds(), 1e-9) }

// judged is a target beside what was measured.
type judged struct {
	target
	measured bool
	got      float64
	// gotCPU is the ratio by CPU per request: what the rate would be if nothing else ran on the core.
	gotCPU float64
	// ourTail and theirTail are the p99 of both.
	ourTail, theirTail time.Duration
	// others is what other processes used meanwhile, in cores.
	others float64
}

// tooBusy is from when on the ratio of rates is the scheduler's and not the servers': other processes used a third of a core.
const tooBusy = 1.0 / 3

func (j judged) disturbed() bool { return j.others > tooBusy }

func (j judged) missed() bool {
	return j.measured && !j.disturbed() && (j.got < j.ratio || j.tail && j.ourTail > j.theirTail)
}

// verdict is the judgement in a word or two.
func (j judged) verdict() string {
	switch {
	case !j.measured:
		return "not measured"
	case j.ratio == 0:
		return "no target"
	case j.disturbed():
		return fmt.Sprintf("not judged: other processes used %.0f %% of a core", 100*j.others)
	case j.got < j.ratio:
		return "**missed**"
	case j.missed():
		return fmt.Sprintf("**p99 missed** (%s against %s)", short(j.ourTail), short(j.theirTail))
	default:
		return "reached"
	}
}

// wanted is the target in words.
func (j judged) wanted() string {
	if j.ratio == 0 {
		return "—"
	}
	s := fmt.Sprintf("≥ %.2f ×", j.ratio)
	if j.tail {
		s += ", p99 ≤"
	}
	return s
}

// judge puts a scenario's targets beside its result.
func judge(s scenario, r result) []judged {
	var out []judged
	mine, have := r.of(s.ourSubject())
	for _, t := range s.targets {
		other, ok := r.of(t.than)
		j := judged{target: t, measured: ok && have}
		if j.measured {
			j.got, j.gotCPU = ratio(mine, other, rateOf), ratio(mine, other, perCPU)
			j.ourTail, j.theirTail = mine.middle().P99, other.middle().P99
			j.others = max(mine.middle().Others, other.middle().Others)
		}
		out = append(out, j)
	}
	return out
}

// table is a result in Markdown, with its targets.
func table(r result) string {
	s := chosen([]string{r.Scenario})[0]
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n", s.title)
	fmt.Fprintf(&b, "| server | requests/s (least to most) | p50 | p99 | CPU/request | core busy | others |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, sub := range r.Subjects {
		m := sub.middle()
		rates := column(sub.Samples, func(s sample) float64 { return s.Rate })
		fmt.Fprintf(&b, "| %s | %.0f (%.0f to %.0f) | %s | %s | %s | %.0f %% | %.0f %% |\n", sub.Name, m.Rate, slices.Min(rates), slices.Max(rates),
			short(m.P50), short(m.P99), short(m.CPU), 100*min(m.Busy, 1), 100*m.Others)
	}
	b.WriteByte('\n')
	for _, j := range judge(s, r) {
		if j.measured {
			fmt.Fprintf(&b, "- %.2f × %s; target %s: %s. By CPU per request %.2f ×.\n", j.got, j.than, j.wanted(), j.verdict(), j.gotCPU)
		}
	}
	fmt.Fprintf(&b, "\n%d rounds of %g s, %s.\n", r.Rounds, r.Seconds, r.At.Format("2 January 2006, 15:04 UTC"))
	return b.String()
}

// short is a span with three digits.
func short(d time.Duration) string {
	switch {
	case d == 0:
		return "—"
	case d < time.Millisecond:
		return fmt.Sprintf("%.3g µs", float64(d)/1e3)
	default:
		return fmt.Sprintf("%.3g ms", float64(d)/1e6)
	}
}
