//go:build linux && !race

package origin

import (
	"syscall"
	"unsafe"
)

// canSwap tells that a firstSwap works on this system.
const canSwap = true

// rawRead reads from a non-blocking socket without waiting, and without telling the scheduler, which would expect it to. Nor is the race detector told, which
// orders by package syscall what happens on both ends of a socket: it has the other file.
func rawRead(fd uintptr, b []byte) (n int, err error) {
	return rawTransfer(syscall.SYS_RECVFROM, fd, b)
}

// rawWrite is rawRead's counterpart.
func rawWrite(fd uintptr, b []byte) (n int, err error) { return rawTransfer(syscall.SYS_SENDTO, fd, b) }

func rawTransfer(call, fd uintptr, b []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall6(call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), 0, 0, 0)
		switch errno {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}

// again tells of an operation that would have to wait.
func again(err error) bool { return err == syscall.EAGAIN }
