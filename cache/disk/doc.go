// Package disk is a [cache.Store] in a directory: a bbolt database holds the index, metadata and bodies up to 64 KiB, larger
// bodies are files of their own. docs/disk-format.md draws the format.
//
// # Usage
//
//	store, err := disk.Open(disk.Options{Path: "/var/cache/swrproxy", Max: 20 << 30})
//	…
//	defer store.Close(ctx) // writes what is queued, until ctx ends
//
// A fill that outgrows memory writes to a spool of the store ([Store.NewSpool]) and hands it over with Put, without a copy.
//
// # How it works
//
// Put and Delete change a queue that Get looks at first, so a change is seen at once; nobody waits for a disk. One goroutine, the
// writer, takes what has gathered, makes room, writes and syncs body files beside their place, renames them, and commits all of it
// in one transaction. So a crash loses at most what gathered since the last commit, about half a second.
//
// What a record consists of goes to the end of its bucket, where a page takes many; only the index is in the order of random hashes. It
// holds 16 bytes a record, and its changes gather in a small bucket until a page of the large one takes several at once.
//
// Records are found by term through an index of their tags and URLs, 16 bytes for each, which changes in the same transaction. Changes of it go
// to the end of a log, and as many as that may have into memory, until a page of the index takes several at once. Invalidations that are
// not applied yet are kept in a journal, whose changes wait in the queue with those of records.
//
// Which keys the database lacks is remembered for some thousand, so that a miss that is stored costs one look at it, not five.
//
// Each value carries a checksum over its metadata, and each body one of its own. Small bodies are checked whenever they are read, body
// files from before this process once, before their first byte leaves. What fails is dropped and counted as damaged.
//
// Room is made before it is needed: of the sixteen records unused for longest the largest goes first. A record read lately
// gets a second chance. The budget counts the database file, body files, spools and a database that was moved aside.
//
// # Concurrency
//
// All methods are safe for concurrent use. Goroutines: the writer and, after Open, one that collects orphan files; Close ends both.
// Lock order: dbMu, then mu; bbolt's own locks are taken under dbMu only. No read transaction outlives the copying of one
// record, or of 128 where many are listed, and no slice of bbolt's leaves its transaction. All who wait in Sync at the same time share a transaction.
//
// # Errors
//
// Open fails if another process uses the path (ErrInUse), or the directory can not be used at all. A database that can not be
// read, or has an unknown format, is moved aside and the store starts empty; one of the version before is upgraded, at two seconds for a million records. When a disk is full or failing, Put refuses and the
// writer tries again later; what it could not write stays readable. Where others fill the file system, records make room before the budget is used up.
// Options.Notify is told of all of it, and Metrics counts it.
//
// # Limits
//
// The database file never shrinks by itself: its free pages are reused; [Compact] rewrites it while no process has it open. Room taken by
// small records can only be used for files after that.
//
// A bit of the index of terms that a disk has lost can hide a record from a purge by tag; [Check] finds that.
package disk
