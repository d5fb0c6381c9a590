// Package integration holds swrproxy's black-box tests: the real binary, real sockets and scripted origins on loopback.
//
// # Usage
//
// go test ./integration/... builds the binary once and starts it as often as the tests need, always on port 0, reading the
// addresses from its output. Two environment variables change that: SWRPROXY_BIN names a binary to test instead, and
// SWRPROXY_RACE=1 builds with the race detector, as make integration does; a process that reports a race fails the test that ran it,
// whatever else that asserts. SWRPROXY_SLACK (a number) multiplies every bound on wall-clock time; set it
// to 1 on an idle machine to hold the proxy to the figures as they are stated. Without it a bound is three times as long, and a second more.
//
// # Reading the tests
//
// There is a file per promise. A test says what the origin does with a script, lets clients go through a barrier, and asserts
// status, body, Cache-Status and above all the number of requests that the origin saw. Where a test waits, it waits for a
// counter, a metric or a log line; the only plain waits are for a lifetime (one second is the shortest that HTTP can state) or for a tenure.
//
// # Limits
//
// The tests need loopback sockets and /proc (Linux) for memory readings.
package integration
