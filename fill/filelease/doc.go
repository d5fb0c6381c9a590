// Package filelease grants leases on keys between the processes of one host: the contract of package fill, with claims as files.
//
// # Usage
//
//	keeper, err := filelease.Open(filelease.Options{Dir: "/run/swrproxy/claims", Sequence: seq})
//	// then as with a fill.Table
//
// Every process opens the same directory with the same Stale and Heartbeat. Inside a process a [Keeper] is a fill.Table: goroutines meet there, and only the one
// that won reaches for the file.
//
// # Files
//
//	<32 hex digits>.claim   one claim; the digits are the first half of SHA-256(space NUL id)
//	<32 hex digits>.tmp     a claim being written; renamed into place, or left by a crash and overwritten
//	guard.<00–3f>           guard lock and token counter of the claims whose digits begin alike, modulo 64
//
// A claim is text:
//
//	swrproxy claim 1
//	checkin 01700000000000000000
//	owner 5f0c…e1.1700000000000000042
//	token 1700000000000000042
//	process 4711@host
//	key "space" "id"
//
// checkin is the wall clock in nanoseconds when the owner last said that it lives, 20 digits so that a check-in overwrites them in place; 0 means that the
// claim is anybody's to take. A claim is fresh from its check-in until Stale later. One with a check-in in the future is not fresh: the clock was put back. One
// that does not parse is judged by the file's modification time.
//
// All judging, taking, checking in and removing is done with the guard locked (flock), so that two takers cannot both succeed, and only after reading that the claim
// is one's own. A check-in never creates a file: it cannot bring back a claim that was released. Nothing is synced: after a power
// failure no process is left whose claim would matter.
//
// # Concurrency
//
// A Keeper is safe for concurrent use. It has one goroutine, which checks in; Close ends it. Waiters for another process's claim look
// again every Poll; what became of that fill is not known here, they are woken with Abandoned and one of them becomes the next holder.
//
// # Errors
//
// Those of package fill, and [ErrGuard]. A process that was paused for longer than Stale and robbed learns it at its next check-in, at CheckCommit and at
// Settle: the lease's context ends with fill.ErrLeaseLost. Failures of the file system in the background go to Options.Report.
//
// # Limits
//
// One host: flock and one wall clock. A process that is stopped exactly while it has a guard locked holds up the takers of one key in 64 until it goes on or dies; they get ErrGuard, which
// is also fill.ErrBusy.
package filelease
