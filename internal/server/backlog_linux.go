package server

import (
	"net"

	"golang.org/x/sys/unix"
)

// waiting tells whether a connection can be accepted at once.
func waiting(ln net.Listener) (yes bool) {
	withDescriptor(ln, func(fd uintptr) {
		list := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(list, 0)
		yes = err == nil && n == 1
	})
	return yes
}
