// Package telemetry turns what the cache reports into metrics and log lines.
//
// # Usage
//
//	t, err := telemetry.New(telemetry.Options{Logger: logger, Registry: registry, Access: telemetry.Access{Enabled: true}})
//	c, err := cache.New(cache.Config{Observer: t, …})
//	t.WatchStore("memory", store)
//
// [Telemetry] is a cache.Observer. Results, reasons, outcomes and notes appear with the words of their String methods, which are those
// of Cache-Status.
//
// # What is never written
//
// Header fields of requests and responses, and query strings unless Access.Query asks for them: keys and error texts lose
// everything behind a question mark first.
//
// # How much is written
//
// One line per request at info, or one of every Access.Every. One warning per failed fill, but at most one per key until the next
// attempt may start. One line per kind of note and second. The lines held back are counted in the next one.
//
// # Concurrency
//
// A Telemetry is safe for concurrent use and starts no goroutine. ReadDone does no look-up by label and allocates nothing: counters are
// resolved the first time they are needed and kept in arrays.
//
// # Errors
//
// New reports metrics that the registry does not take, such as those of a second Telemetry.
//
// # Limits
//
// Warnings remember at most 8,192 failing keys at a time; beyond that the failures are only counted until some recover.
package telemetry
