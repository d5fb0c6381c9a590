//go:build unix

package origin

import "golang.org/x/sys/unix"

// canPeek tells that readable works on this system.
const canPeek = true

// readable reports whether a read from the socket would not wait: there are bytes, an end or an error. It takes nothing.
func readable(fd uintptr) bool {
	var b [1]byte
	_, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return err != unix.EAGAIN && err != unix.EINTR
}
