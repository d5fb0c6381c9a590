//go:build unix

package origin

import "syscall"

// canPeek tells that readable works on this system.
const canPeek = true

// readable reports whether a read from the non-blocking socket would not wait: there are bytes, an end or an error. A byte may be lost in b:
// who has something to read where there should be silence closes the connection.
func readable(fd uintptr, b []byte) bool {
	_, err := syscall.Read(int(fd), b)
	return err != syscall.EAGAIN && err != syscall.EINTR
}
