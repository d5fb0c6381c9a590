// Package tiered is a [cache.Store] made of two: memory in front, disk behind.
//
// # Usage
//
//	store := tiered.New(mem, dsk)
//	…
//	defer store.Close(ctx) // closes both
//
// # How it works
//
// Put goes to both tiers; a body that is too large for memory only to disk, the record itself to both, so that memory holds a handle
// that opens the file. Get looks in memory, then on disk, and takes what it finds there into memory: small records and
// handles at once (ristretto's own admission weighs them by use), larger ones when they are read a second time.
// One of 64 hits in memory is told to the disk tier, so that what is hot in memory is not the first to go from disk.
//
// Find lists what memory has, then what only disk has; it takes nothing into memory, so it needs no ticket of a stripe. The journal is the disk's.
//
// A disk that fails or is full refuses; memory goes on alone.
//
// # Concurrency
//
// All methods are safe for concurrent use. A record found on disk may be taken into memory only if no change of its key's stripe
// was under way or began meanwhile: else a deleted or overtaken record could come back. A read that finds that a change began
// meanwhile looks again. No lock is held during I/O.
//
// # Limits
//
// A record in memory whose body is a file is only as good as the file: if that was evicted, opening it fails and the read counts as
// a miss.
package tiered
