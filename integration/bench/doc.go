// Command bench measures the proxy: against nginx and Varnish on the same machine in the same minutes, and against its own past.
//
// # Usage
//
//	go run ./integration/bench                        all scenarios, writes docs/performance.md
//	go run ./integration/bench -scenario hit-1k,miss  some of them; the page keeps the others' last figures
//	go run ./integration/bench -scenario gc           hits beside a full memory tier; takes minutes, so only by name
//	go run ./integration/bench -scenario purge        hits during a soft purge; only by name too
//	go run ./integration/bench -rounds 7 -duration 3s
//	go run ./integration/bench -patience 10s          puts off and repeats runs that other processes disturb
//	go run ./integration/bench -scenario gc-natural   the same over minutes, with collections as they come
//	go run ./integration/bench lookup                 what a hit takes between its system calls; writes the page, too
//	go run ./integration/bench purge                  what purges take and do to hits; takes minutes and 3 GiB of memory; writes the page, too
//	go run ./integration/bench page                   writes docs/performance.md anew from the last figures
//	go run ./integration/bench micro                  Go benchmarks, compared by benchstat with base.txt
//	go run ./integration/bench micro -save            the same, as the new base.txt
//
// # How it measures
//
// Every server is pinned to one core, the load generator and the origin to another. In each round every server gets one run of a few
// seconds, one after the other, so that a busy moment of the machine hits all of them alike; a ratio is the median of the rounds' ratios.
// CPU is what the kernel booked on the server's processes while the generator ran. How many requests reached the origin is counted
// too: a run of hits that were not hits, or of misses that were not misses, is an error and not a figure.
//
// nginx-light, varnish, wrk and nghttp2-client are installed from Debian where they are missing, which needs root.
//
// Where a server's core is not busy the generator was the limit, and CPU per request is judged in place of the rate. The scenario store
// waits, up to six minutes, while the file system is slow at creating files because many were deleted a moment ago.
//
// # Limits
//
// Linux only, at least two cores. With two cores the kernel's network work for both sides shares them.
package main
