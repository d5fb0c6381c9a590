//go:build unix && (!linux || race)

package origin

import "syscall"

// canSwap tells that a firstSwap works on this system.
const canSwap = true

// rawRead reads from a non-blocking socket without waiting.
func rawRead(fd uintptr, b []byte) (n int, err error) {
	for {
		if n, err = syscall.Read(int(fd), b); err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}

// rawWrite writes to a non-blocking socket without waiting.
func rawWrite(fd uintptr, b []byte) (n int, err error) {
	for {
		if n, err = syscall.Write(int(fd), b); err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}

// again tells of an operation that would have to wait.
func again(err error) bool { return err == syscall.EAGAIN }
