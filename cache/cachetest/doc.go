// Package cachetest holds the contract suite that every [cache.Store] passes.
//
// # Usage
//
//	func TestContract(t *testing.T) {
//		cachetest.Run(t, func(t *testing.T) cache.Store {
//			s, err := memory.New(memory.Options{Max: cachetest.Budget})
//			…
//			return s
//		})
//	}
//
// Stores that implement [cache.Finder] are tested as such by Run, those that implement [cache.Journal] by [RunJournal].
//
// Each test opens a store of its own. When it is over the suite checks the store's invariants, closes it, and checks that a closed
// store refuses quietly. Random tests print their seed; set CACHETEST_SEED to repeat one.
//
// # Concurrency
//
// The tests of one Run go one after another; run them with -race.
//
// # Limits
//
// A store may forget any record at any time. The suite loads a store far below its budget, and there demands that nothing is
// forgotten without being asked.
package cachetest
