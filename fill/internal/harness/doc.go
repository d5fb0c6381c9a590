// Package harness drives a lease keeper hard, from goroutines or from processes, and counts what must never happen.
//
// # Usage
//
//	row, err := harness.Contend(harness.Table, harness.Load{Workers: 4, Callers: 3, Section: harness.Spin})
//	bad := row.Broken() // "" if the keeper kept its promise
//
// Everything observed is kept on a [Board] of counters, in memory that all workers share: processes map one file. A keeper cannot influence
// what the board shows, other than by granting rightly or wrongly. The package also has keepers that are wrong on purpose, to show that the harness would
// notice.
//
// A program that uses processes calls [Worker] first thing in main: the harness starts the program itself again as its workers.
//
// # Concurrency
//
// Contend and Sweep run one load at a time and return when all their goroutines and processes have ended.
package harness
