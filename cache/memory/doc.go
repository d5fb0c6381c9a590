// Package memory is a [cache.Store] in memory with a budget in bytes, on ristretto.
//
// # Usage
//
//	store, err := memory.New(memory.Options{Max: 512 << 20})
//	…
//	defer store.Close(ctx)
//
// # How it works
//
// An index of our own says where each record is; it is flat and has no pointers, so that a look-up costs a line or two of memory however many
// records there are, and the collector nothing. All changes are made in it first, where the very next Get sees them.
//
// Ristretto chooses what is worth its bytes (TinyLFU admission, sampled LFU eviction). It holds no records, only the number of the arrival that
// brought each. It applies sets later, may drop them, may refuse them, and orders nothing: so one goroutine, the settler, carries changes over, and is
// the only one that writes to ristretto. It lets some gather for a millisecond. A record that ristretto refused stays on probation, a window of an
// eighth of the budget in order of arrival; if it was read there it is offered again, so that a popular newcomer gets in and one that nobody wants
// costs little. One that is too large for that is counted at every Put. What ristretto drops leaves the index. While half the budget is free it is told
// of one read in 32: to count a read costs more than the look-up.
//
// What has terms ([cache.Record.Terms]) is found by them: each term has a list of keys, changed with the index under the shard's
// lock. It takes about 18 bytes for each term of a record, and nothing for a record without.
//
// The collector looks at every object in each cycle, and a record is three. So the settler copies records that have found their place, a hundred
// at a time, into segments, most of which are one object without a pointer to follow. A segment goes when no record in it is held any more; when
// less than two thirds are, the rest is packed anew.
//
// No expiry is kept in ristretto, whose expiry map grows without bound: a record's deadlines are its own. Nor is there a sweep for records
// whose last window is over: they still carry validators, so the next reader's fill may end in a 304, and they take room that nothing else
// needs, since they are displaced like any other that is not read. Stats counts them as expired then.
//
// Tokens of the records that were forgotten last are remembered, so that a straggler with an older token does not come in after
// a newer record was dropped.
//
// # Concurrency
//
// All methods are safe for concurrent use, Close included. Get takes one read lock of 64 and does not allocate; it waits for no I/O
// and for no other goroutine's work beyond a change of the index. Put waits for the settler when arrivals exceed an eighth of the
// budget, and for a record that is as large. The order of locks is settling, shard, ristretto's own; queue, chunks and the
// lists of terms are leaves.
//
// # Errors
//
// A record larger than the budget, and any after Close, is refused, and one of more than an eighth of the budget if ristretto does not
// want it. A refused record takes the older one of its key with it, since that has been overtaken.
//
// # Limits
//
// The budget counts what [cache.Record.Cost] counts plus the frequency sketch. Arrivals on their way are counted beside it: for
// some microseconds a store may hold its budget plus what is being put. Bodies held by readers of a record that was dropped
// meanwhile are not counted; a reader keeps the whole segment of its record, 152 KB, where it was packed. What dropped records leave in
// segments is not counted either: a fifth where every newcomer displaces another, at most a third.
package memory
