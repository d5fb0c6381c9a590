package server

import (
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sendResident sends n bytes of f from at on for as long as they are in memory, waiting for the client as a write does. Less than n without an error means
// that the next have to be read from the disk first.
//
// Go announces each sendfile to its scheduler as a call that may block. One of megabytes lasts for milliseconds, in which the runtime takes the processor
// away from it and wakes up every 20 µs to look; on one core that costs a tenth. What is in memory does not block.
func (c *conn) sendResident(f file, at, n int64) (sent int64, err error) {
	if c.raw == nil {
		return 0, nil
	}
	from, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	var errno syscall.Errno
	var closed error
	send := sendPages
	if c.isLocal() {
		send = copyPages
	}
	err = c.raw.conn.Write(func(to uintptr) bool {
		closed = from.Control(func(fd uintptr) { sent, errno = send(to, fd, at, n, sent) })
		return errno != syscall.EAGAIN
	})
	switch {
	case err != nil:
	case closed != nil:
		err = closed
	case errno != 0:
		err = &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("sendfile", errno)}
	}
	return sent, err
}

// sendPages goes on with sent of n bytes, until one has to wait.
func sendPages(to, fd uintptr, at, n, sent int64) (int64, syscall.Errno) {
	for sent < n && isResident(int(fd), at+sent, min(n-sent, sendLimit)) {
		off := at + sent
		m, errno := trySendfile(to, fd, &off, n-sent)
		switch {
		case errno == syscall.EINTR:
			continue
		case errno != 0:
			return sent, errno
		case m == 0:
			return sent, 0 // a file that is shorter
		}
		sent += int64(m)
		runtime.Gosched()
	}
	return sent, 0
}

// isLocal tells whether the client is on this machine.
func (c *conn) isLocal() bool {
	a, ok := c.RemoteAddr().(*net.TCPAddr)
	return ok && a.IP.IsLoopback()
}

var pageBuffers = sync.Pool{New: func() any { return new([sendLimit]byte) }}

// copyPages is sendPages for clients on this machine. No network card could fetch the pages; they would be copied one by one at the other end, and 10 MiB
// from them cost up to half as much CPU again as from a buffer.
func copyPages(to, fd uintptr, at, n, sent int64) (int64, syscall.Errno) {
	buf := pageBuffers.Get().(*[sendLimit]byte)
	defer pageBuffers.Put(buf)
	for sent < n {
		iov := syscall.Iovec{Base: &buf[0]}
		iov.SetLen(int(min(n-sent, sendLimit)))
		off := at + sent
		have, _, errno := syscall.RawSyscall6(unix.SYS_PREADV2, fd, uintptr(unsafe.Pointer(&iov)), 1, uintptr(off), uintptr(off>>32), unix.RWF_NOWAIT)
		if errno != 0 || have == 0 {
			return sent, 0
		}
		for part := buf[:have]; len(part) > 0; {
			m, errno := trySend(to, part)
			switch errno {
			case 0:
				sent += int64(m)
				part = part[m:]
			case syscall.EINTR:
			default:
				return sent, errno
			}
		}
		runtime.Gosched()
	}
	return sent, 0
}

// isResident tells whether the first and the last of n bytes from at on can be read without waiting. Those between came with them.
func isResident(fd int, at, n int64) bool {
	for _, off := range [2]int64{at, at + n - 1} {
		var one [1]byte
		if m, err := unix.Preadv2(fd, [][]byte{one[:]}, off, unix.RWF_NOWAIT); m != 1 || err != nil {
			return false
		}
	}
	return true
}
