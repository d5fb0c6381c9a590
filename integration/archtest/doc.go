// Package archtest keeps the directions in which packages may import each other, and literal dates out of tests that meet the real clock.
//
// The table in edges.go lists every allowed edge with its reason; its test compares it with what go list says. An edge that is missing
// there is a decision to be made, not a line to be added by habit.
//
// DatedTests in dates.go lists every test file that may hold dates, each with its reason.
package archtest
