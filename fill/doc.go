// Package fill says who may fetch a key now: one holder per key at a time, whatever the number of readers.
//
// # Usage
//
//	lease, waiter, err := table.Join(fill.Key{Space: "app", ID: url})
//	switch {
//	case err != nil: // closed
//	case lease != nil:
//		out := fill.Outcome{Kind: fill.Abandoned}
//		defer func() { lease.Settle(out) }()
//		body, err := fetch(lease.Context()) // calls lease.Renew as bytes arrive
//		if err == nil && lease.CheckCommit() == nil {
//			store(body, lease.Token())
//			out.Kind = fill.Stored
//		}
//	default:
//		defer waiter.Cancel()
//		out, err := waiter.Wait(ctx, limit) // then look in the cache, and join again
//	}
//
// A reader who is content with what it has calls TryAcquire instead, which never waits and registers nothing.
//
// # Leases
//
// A [Lease] is a value held by its owner. It has a token from an ever-growing [Sequence], a context that ends with the lease, and is ended by Settle,
// once. There is no release by key. A lease whose tenure passes without progress (Renew) frees its key by the table's own timer; it may
// still commit while nobody newer has come, and takes its key again when it makes progress then. A newer claim (Supersede,
// QueueNewer) or an invalidation (Displace) ends the holder's right to commit.
//
// A [Waiter] is told when the lease ends and how. Being woken is not being granted: it looks again and may join again.
//
// # Concurrency
//
// Table, Sequence, Lease and Claim are safe for concurrent use, Waiter is not. No callback of a user runs under a mutex. The order of locks is simple: one shard's
// mutex at a time, and nothing else while it is held. A table has no goroutine; each shard has one timer that runs only while leases are held.
//
// # Errors
//
// [ErrBusy] and [ErrClosed] from the table; [ErrSuperseded], [ErrLeaseLost], [ErrTenureOver], [ErrSettled], [ErrClosed] from leases and
// as causes of their contexts; [ErrStarted] from a claim.
//
// # Limits
//
// A check of CheckCommit and the commit after it are two steps: the store has to compare tokens. Tokens order what one Sequence numbered; tables that
// share a store must share a sequence.
package fill
