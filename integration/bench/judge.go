package main

import (
	"fmt"
	"time"
)

// judged is a target beside what was measured.
type judged struct {
	target
	measured bool
	got      float64
	// gotCPU is the ratio by CPU per request: what the rate would be if nothing else ran on the core.
	gotCPU float64
	// idle is that a core of one of the two servers was not busy: the generator was the limit, and rates tell about that.
	idle bool
	// longer is by how much our median is longer, tails how many times as long our p99.9 is.
	longer time.Duration
	tails  float64
	// p99s is how many times as long our p99 is.
	p99s float64
	// ourTail and theirTail are the p99 of both.
	ourTail, theirTail time.Duration
	// others is what other processes used meanwhile, in cores.
	others float64
}

// tooBusy is from when on the ratio of rates is the scheduler's and not the servers': other processes used a third of a core.
const tooBusy = 1.0 / 3

// saturated is from when on a server's core is its limit. Ticks of 10 ms and the generator's start leave some to 1.
const saturated = 0.9

// spent is from when on the generator has nothing left, its start counted in, and full what a server's core then has to be busy to be its own limit, too.
const spent, full = 0.9, 0.98

// waited tells whether the server had time left and the generator was the limit.
func (m sample) waited() bool {
	return m.Busy < saturated || m.Generator >= spent && m.Busy < full
}

// judge puts a scenario's targets beside its result.
func judge(s scenario, r result) []judged {
	var out []judged
	mine, have := r.of(s.ourSubject())
	for _, t := range s.targets {
		other, ok := r.of(t.than)
		j := judged{target: t, measured: ok && have}
		if j.measured {
			j.compare(mine, other)
		}
		out = append(out, j)
	}
	return out
}

func (j *judged) compare(mine, other series) {
	m, o := mine.middle(), other.middle()
	j.got, j.gotCPU = ratio(mine, other, rateOf), ratio(mine, other, perCPU)
	j.idle = m.waited() || o.waited()
	j.longer, j.tails = extraOf(mine, other), ratio(mine, other, p999Of)
	j.p99s = ratio(mine, other, p99Of)
	j.ourTail, j.theirTail = m.P99, o.P99
	j.others = max(m.Others, o.Others)
}

func (j judged) disturbed() bool { return j.others > tooBusy }

// byLatency tells whether the target is one of latency; rates do not matter then.
func (j judged) byLatency() bool { return j.extra > 0 || j.tailRatio > 0 || j.p99Ratio > 0 }

// decisive is the ratio that is judged.
func (j judged) decisive() float64 {
	if j.idle {
		return j.gotCPU
	}
	return j.got
}

// short tells whether the measured figure itself misses the target, whatever else ran.
func (j judged) short() bool {
	switch {
	case j.extra > 0:
		return j.longer > j.extra
	case j.tailRatio > 0:
		return j.tails > j.tailRatio
	case j.p99Ratio > 0:
		return j.p99s > j.p99Ratio
	default:
		return j.decisive() < j.ratio
	}
}

func (j judged) missed() bool {
	return j.measured && !j.disturbed() && (j.short() || j.tail && j.ourTail > j.theirTail)
}

// verdict is the judgement in a word or two.
func (j judged) verdict() string {
	how := ""
	if j.idle && !j.byLatency() {
		how = " by CPU"
	}
	switch {
	case !j.measured:
		return "not measured"
	case j.ratio == 0 && !j.byLatency():
		return "no target"
	case j.disturbed():
		return fmt.Sprintf("not judged: other processes used %.0f %% of a core", 100*j.others)
	case j.short():
		return "**missed**" + how
	case j.missed():
		return fmt.Sprintf("**p99 missed** (%s against %s)", short(j.ourTail), short(j.theirTail))
	default:
		return "reached" + how
	}
}

// wanted is the target in words.
func (j judged) wanted() string {
	switch {
	case j.extra > 0:
		return fmt.Sprintf("median ≤ %s longer", short(j.extra))
	case j.tailRatio > 0:
		return fmt.Sprintf("p99.9 ≤ %.2f ×", j.tailRatio)
	case j.p99Ratio > 0:
		return fmt.Sprintf("p99 ≤ %.2f ×", j.p99Ratio)
	case j.ratio == 0:
		return "—"
	case j.tail:
		return fmt.Sprintf("≥ %.2f ×, p99 ≤", j.ratio)
	default:
		return fmt.Sprintf("≥ %.2f ×", j.ratio)
	}
}

// figure is what was measured, and figureCPU the same by CPU.
func (j judged) figure() string {
	switch {
	case !j.measured:
		return "—"
	case j.extra > 0:
		return short(j.longer) + " longer"
	case j.tailRatio > 0:
		return fmt.Sprintf("%.2f ×", j.tails)
	case j.p99Ratio > 0:
		return fmt.Sprintf("%.2f ×", j.p99s)
	default:
		return fmt.Sprintf("%.2f ×", j.got)
	}
}

func (j judged) figureCPU() string {
	if !j.measured || j.byLatency() {
		return "—"
	}
	return fmt.Sprintf("%.2f ×", j.gotCPU)
}

// sentence is all of it.
func (j judged) sentence() string {
	s := fmt.Sprintf("%s %s; target %s: %s.", j.figure(), j.than, j.wanted(), j.verdict())
	switch {
	case j.extra > 0:
		return fmt.Sprintf("Median %s than %s; target %s: %s.", j.figure(), j.than, j.wanted(), j.verdict())
	case j.tailRatio > 0:
		return "p99.9 " + s
	case j.p99Ratio > 0:
		return "p99 " + s
	default:
		return fmt.Sprintf("%s By CPU per request %s.", s, j.figureCPU())
	}
}
