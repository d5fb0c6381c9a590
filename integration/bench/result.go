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
	P999 time.Duration `json:"p999,omitempty"` // 0: the generator does not tell
	// CPU is per request, Busy the share of the core that was used.
	CPU  time.Duration `json:"cpu"`
	Busy float64       `json:"busy"`
	// Generator is the share of its core that the generator itself used, 0 if not known.
	Generator float64 `json:"generator,omitempty"`
	// Others is what processes that have no part in this used, in cores.
	Others float64 `json:"others"`
	// Stored is the share of what was fetched that is on disk, where that is what the scenario is about.
	Stored float64 `json:"stored,omitempty"`
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
		P999:   median(column(s.Samples, func(s sample) time.Duration { return s.P999 })),
		CPU:    median(column(s.Samples, func(s sample) time.Duration { return s.CPU })),
		Busy:   median(column(s.Samples, func(s sample) float64 { return s.Busy })),
		Others: median(column(s.Samples, func(s sample) float64 { return s.Others })),
		Stored: median(column(s.Samples, func(s sample) float64 { return s.Stored })),
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

// p99Of is the p99.
func p99Of(s sample) float64 { return float64(s.P99) }

// p999Of is the p99.9.
func p999Of(s sample) float64 { return float64(s.P999) }

// extraOf is the median over the rounds of how much longer a's median is.
func extraOf(a, b series) time.Duration {
	var spans []time.Duration
	for i := range min(len(a.Samples), len(b.Samples)) {
		spans = append(spans, a.Samples[i].P50-b.Samples[i].P50)
	}
	return median(spans)
}

// table is a result in Markdown, with its targets.
func table(r result) string {
	s := scenarioOf(r.Scenario)
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n", s.title)
	if s.note != "" {
		fmt.Fprintf(&b, "%s\n\n", s.note)
	}
	columns := columnsOf(s)
	for _, c := range columns {
		fmt.Fprintf(&b, "| %s ", c.title)
	}
	b.WriteString("|\n" + strings.Repeat("| --- ", len(columns)) + "|\n")
	for _, sub := range r.Subjects {
		for _, c := range columns {
			fmt.Fprintf(&b, "| %s ", c.cell(sub, sub.middle()))
		}
		b.WriteString("|\n")
	}
	b.WriteByte('\n')
	for _, j := range judge(s, r) {
		if j.measured {
			fmt.Fprintf(&b, "- %s\n", j.sentence())
		}
	}
	fmt.Fprintf(&b, "\n%d rounds of %g s, %s.\n", r.Rounds, r.Seconds, r.At.Format("2 January 2006, 15:04 UTC"))
	return b.String()
}

// cells is a column of a table of figures; m is the middle of the server's samples.
type cells struct {
	title string
	cell  func(s series, m sample) string
}

// columnsOf are the columns that a scenario's table has.
func columnsOf(s scenario) []cells {
	columns := []cells{
		{"server", func(s series, _ sample) string { return s.Name }},
		{"requests/s (least to most)", func(s series, m sample) string {
			rates := column(s.Samples, rateOf)
			return fmt.Sprintf("%.0f (%.0f to %.0f)", m.Rate, slices.Min(rates), slices.Max(rates))
		}},
		{"p50", func(_ series, m sample) string { return short(m.P50) }},
		{"p99", func(_ series, m sample) string { return short(m.P99) }},
	}
	if s.kind == firstByte || s.kind == fullMemory || s.kind == crowdPurge {
		columns = append(columns, cells{"p99.9", func(_ series, m sample) string { return short(m.P999) }})
	}
	columns = append(columns,
		cells{"CPU/request", func(_ series, m sample) string { return short(m.CPU) }},
		cells{"core busy", func(_ series, m sample) string { return fmt.Sprintf("%.0f %%", 100*min(m.Busy, 1)) }},
		cells{"others", func(_ series, m sample) string { return fmt.Sprintf("%.0f %%", 100*m.Others) }},
	)
	if s.kind == stores {
		columns = append(columns, cells{"on disk", func(s series, m sample) string {
			if s.Name != oursDisk {
				return "—"
			}
			return fmt.Sprintf("%.0f %%", 100*m.Stored)
		}})
	}
	return columns
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
