package main

// Verdict is what the suite makes of one test. A closed enum.
type Verdict uint8

const (
	// Unknown is the zero value: a symbol that no edition known to this command uses.
	Unknown Verdict = iota
	// Passed is a required or optimal test that passed.
	Passed
	// Failed is a required or optimal test that failed.
	Failed
	// Yes and No are the answers of observing tests.
	Yes
	No
	// SetupFailed means that the test could not be brought to its point.
	SetupFailed
	// DependencyFailed means that a test which this one builds on did not pass.
	DependencyFailed
	// Retried means that the origin saw a request twice.
	Retried
	// HarnessFailed means that the suite itself failed.
	HarnessFailed
	// Untested means that there is no result.
	Untested
	numVerdicts
)

var verdictNames = [numVerdicts]string{
	"unknown", "pass", "fail", "yes", "no", "setup failure", "dependency failure", "retry", "harness failure", "untested",
}

// String returns the word used in reports.
func (v Verdict) String() string {
	if v >= numVerdicts {
		return verdictNames[Unknown]
	}
	return verdictNames[v]
}

// symbols are what the suite prints for its verdicts.
var symbols = map[string]Verdict{
	"✅": Passed, "⛔️": Failed, "⚠️": Failed, "Y": Yes, "N": No,
	"🔹": SetupFailed, "⚪️": DependencyFailed, "↻": Retried, "⁉️": HarnessFailed, "-": Untested,
}
