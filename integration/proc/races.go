package proc

import "strings"

// raceTitle is the first line of a report of the race detector, raceBorder stands above and below each.
const (
	raceTitle  = "WARNING: DATA RACE"
	raceBorder = "=================="
)

// Races returns the reports that a race-built child has written so far, without their borders. A killed child may leave its last one
// incomplete. All of them are there once Exited has closed.
func (p *Process) Races() []string {
	var reports []string
	for _, rest := range strings.Split(p.stderr.String(), raceTitle)[1:] {
		report, _, _ := strings.Cut(rest, "\n"+raceBorder)
		reports = append(reports, raceTitle+report)
	}
	return reports
}
