// Command proof shows that the lease keepers grant a key to one holder at a time, and that the harness would notice if they did not.
//
// It prints a row for each keeper, load and kind of critical section, then the sweep, then the same for keepers that are wrong on purpose. It exits with 1 if a
// right keeper broke a promise or a wrong one was not found out.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/swrproxy/swrproxy/fill/internal/harness"
)

// loads are workers × callers.
var loads = [][2]int{{2, 1}, {4, 1}, {8, 1}, {1, 4}, {4, 3}}

func main() {
	harness.Worker()
	p := &proof{}
	p.contention()
	p.sweeps()
	if p.broken > 0 {
		fmt.Printf("\n%d rows are not as they must be\n", p.broken)
		os.Exit(1)
	}
	fmt.Println("\nall rows are as they must be")
}

// proof counts rows that are not as they must be.
type proof struct {
	broken int
}

func (p *proof) contention() {
	fmt.Printf("%d rounds for each caller\n", harness.Rounds)
	fmt.Printf("%-15s %-8s %-7s %5s %5s %7s %9s %8s  %s\n",
		"keeper", "workers", "section", "most", "lost", "strays", "attempts", "longest", "verdict")
	for _, k := range harness.Keepers {
		for _, l := range loads {
			for _, s := range harness.Sections {
				p.row(k, harness.Load{Workers: l[0], Callers: l[1], Section: s})
			}
		}
	}
	// The mistakes of the wrong keepers show where many meet: with two callers, for example, waking is granting.
	for _, k := range []harness.Keeper{harness.WakeIsGrant, harness.ReleaseByKey} {
		for _, l := range loads[2:] {
			p.row(k, harness.Load{Workers: l[0], Callers: l[1], Section: harness.Timer})
		}
	}
}

func (p *proof) row(k harness.Keeper, l harness.Load) {
	r, err := harness.Contend(k, l)
	if err != nil {
		fmt.Println(err)
		p.broken++
		return
	}
	fmt.Printf("%-15s %-8s %-7s %5d %5d %7d %9.2f %8v  %s\n", k, fmt.Sprintf("%d×%d", l.Workers, l.Callers), l.Section,
		r.Most, r.Lost, r.Strays, float64(r.Attempts)/float64(max(r.Acquired, 1)), r.Longest.Round(100*time.Microsecond),
		p.verdict(k, r.Broken()))
}

func (p *proof) sweeps() {
	fmt.Printf("\n%-15s %6s %8s %6s %8s  %s\n", "sweep", "due", "granted", "twice", "refused", "verdict")
	for _, k := range append(harness.Keepers, harness.LooseTry) {
		r, err := harness.Sweep(k)
		if err != nil {
			fmt.Println(err)
			p.broken++
			continue
		}
		fmt.Printf("%-15s %6d %8d %6d %8d  %s\n", k, r.Due, r.Granted, r.Twice, r.Refused, p.verdict(k, r.Broken()))
	}
}

// verdict judges a row: right keepers must not break a promise, wrong ones must.
func (p *proof) verdict(k harness.Keeper, bad string) string {
	right := k == harness.Table || k == harness.Files
	switch {
	case right && bad == "":
		return "ok"
	case right:
		p.broken++
		return "BROKEN: " + bad
	case bad == "":
		p.broken++
		return "NOT FOUND OUT"
	default:
		return "found out: " + bad
	}
}
