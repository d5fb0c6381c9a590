// Package demo is a slow origin to try the proxy on, and both of them wired together in one process.
//
// # Usage
//
//	d, err := demo.Start(demo.Options{Out: os.Stdout, Log: os.Stderr})
//	…
//	err = d.Drain(ctx)
//
// The origin has pages that differ in latency, max-age and stale windows. Each says which version it is and when it was made, so that
// one sees a stale answer, a refresh, a recovery. Requests to /_origin/ on the origin's own address make it fail, hang and recover.
//
// # Concurrency
//
// An Origin and a Demo are safe for concurrent use. The origin's server goroutine ends with Drain.
//
// # Limits
//
// It listens on loopback only and is no part of what serves production traffic.
package demo
