// Command clock runs the tests of some packages with the wall clock moved ahead, so that a test that depends on the day fails now.
//
//	go run ./integration/clock ./...             # 400 days ahead
//	go run ./integration/clock -days 30 ./cache
//
// It hands go test an overlay in which the toolchain's own time.Now adds those days to the wall clock. All code of a test binary, the standard
// library's included, sees the moved clock; no other process does. Left as they are: the monotonic clock, and with it timers and timeouts; the
// fake clock of testing/synctest; and the times of files, which are the kernel's (fill/filelease alone compares them with the clock).
//
// The tests of this package run with the others and fail where the clock is not ahead by what they are told to expect.
//
// It exits with 1 if a test fails, or if the toolchain's time.Now does not look as expected any more; see patch.
package main
