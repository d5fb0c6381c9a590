package server

import "golang.org/x/sys/unix"

// queued is what the kernel has to send of a TCP socket and what was sent and not acknowledged, -1 if it does not say.
func queued(fd uintptr) int {
	n, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
	if err != nil {
		return -1
	}
	return n
}
