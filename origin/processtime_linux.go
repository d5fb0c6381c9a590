package origin

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// processTime is the CPU time that the process has used so far. As with rawRead, the scheduler is not told: that would have its monitor wake up, which
// costs more than the call.
func processTime() (time.Duration, bool) {
	var ts unix.Timespec
	_, _, errno := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_PROCESS_CPUTIME_ID, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano()), errno == 0
}
