package server

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// waiting tells whether a connection can be accepted at once.
func waiting(ln net.Listener) (yes bool) {
	c, ok := ln.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) { // at a closed one nobody waits
		list := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(list, 0)
		yes = err == nil && n == 1
	})
	return yes
}
