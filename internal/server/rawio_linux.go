package server

import (
	"io"
	"net"
	"syscall"
	"unsafe"
)

// rawIO reads and writes a connection's non-blocking socket without telling Go's scheduler: such a call returns at once, and announcing
// it as one that may block costs more than a small one itself, and for a large one makes the runtime move the processor to another
// thread in the middle of it. read waits with Go's poller and the connection's deadlines, as always; writing does not wait at all.
type rawIO struct {
	conn      syscall.RawConn
	readReady func(fd uintptr) bool // made once: closures on the way of each request would allocate

	in    []byte        // what readReady fills
	n     int           // bytes that it read
	errno syscall.Errno // of that read

	out  [2][]byte // what push has left to write
	twin *twin     // where the second is sent from, nil for memory
	at   int64     // the place in twin's file
	sent int64
	iov  [2]syscall.Iovec
}

// rawLimit bounds one write: the garbage collector waits for it.
const rawLimit = 128 << 10

// sendLimit is the same for sending pages. With more at a time a client on the same machine drains the socket in bursts, and sleeps in between.
const sendLimit = 128 << 10

func newRawIO(c tcp) *rawIO {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	r := &rawIO{conn: raw}
	r.readReady = r.readOnce
	return r
}

// read is Conn.Read.
func (r *rawIO) read(p []byte) (int, error) {
	r.in = p
	err := r.conn.Read(r.readReady)
	r.in = nil
	if op, ok := err.(*net.OpError); ok {
		op.Op = "read" // net/http knows a failed read by this name
	}
	switch {
	case err != nil:
		return 0, err
	case r.errno != 0:
		return 0, &net.OpError{Op: "read", Net: "tcp", Err: r.errno}
	case r.n == 0:
		return 0, io.EOF
	}
	return r.n, nil
}

func (r *rawIO) readOnce(fd uintptr) bool {
	r.n, r.errno = tryRead(fd, r.in)
	return r.errno != syscall.EAGAIN
}

// tryRead reads what is there; EAGAIN says that nothing is, no bytes without an error that nothing will come.
func tryRead(fd uintptr, p []byte) (int, syscall.Errno) {
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), 0, 0, 0)
		if errno != syscall.EINTR {
			return int(n), errno
		}
	}
}

// begin prepares to write a and b. If w is not nil, b is the end of its body.
func (r *rawIO) begin(a, b []byte, w *twin) {
	r.out, r.twin, r.sent = [2][]byte{a, b}, w, 0
	if w != nil {
		r.at = int64(len(w.body) - len(b))
	}
}

// end lets go of what was written, whole or not.
func (r *rawIO) end() {
	r.twin.release()
	r.out, r.iov, r.twin = [2][]byte{}, [2]syscall.Iovec{}, nil
}

// pushed is how far push has come. A closed enum.
type pushed uint8

const (
	// pushDone: all is out.
	pushDone pushed = iota
	// pushFull: the socket takes no more now.
	pushFull
	// pushMore: it may take more, but others are waiting.
	pushMore
	// pushFailed: the connection is broken.
	pushFailed
)

// push writes what the socket takes, up to turnBytes.
func (r *rawIO) push(fd uintptr) pushed {
	for limit := r.sent + turnBytes; len(r.out[0])+len(r.out[1]) > 0; {
		if r.sent >= limit {
			return pushMore
		}
		n, errno := r.step(fd)
		switch errno {
		case 0:
			r.took(n)
		case syscall.EINTR:
		case syscall.EAGAIN:
			return pushFull
		default:
			return pushFailed
		}
	}
	return pushDone
}

// step does one system call.
func (r *rawIO) step(fd uintptr) (int, syscall.Errno) {
	if r.twin == nil {
		return r.writeOnce(fd)
	}
	if head := r.out[0]; len(head) > 0 {
		// Not with MSG_MORE: gathered into one segment with the head, the pages are copied after all.
		return trySend(fd, head)
	}
	n, errno := trySendfile(fd, uintptr(r.twin.fd), &r.at, int64(len(r.out[1])))
	if errno == 0 && n == 0 {
		errno = syscall.EIO // a file shorter than its body: cannot be, and must not spin
	}
	return n, errno
}

// trySend writes what the socket takes of p.
func trySend(fd uintptr, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), 0, 0, 0)
	return int(n), errno
}

// trySendfile sends what the socket takes of n bytes of a file from *at on, up to sendLimit, and moves *at behind them.
func trySendfile(fd, file uintptr, at *int64, n int64) (int, syscall.Errno) {
	m, _, errno := syscall.RawSyscall6(syscall.SYS_SENDFILE, fd, file, uintptr(unsafe.Pointer(at)), uintptr(min(n, sendLimit)), 0, 0)
	return int(m), errno
}

func (r *rawIO) writeOnce(fd uintptr) (int, syscall.Errno) {
	parts, room := 0, rawLimit
	for _, p := range r.out {
		p = p[:min(len(p), room)]
		room -= len(p)
		if len(p) > 0 {
			r.iov[parts].Base = unsafe.SliceData(p)
			r.iov[parts].SetLen(len(p))
			parts++
		}
	}
	var n uintptr
	var errno syscall.Errno
	if parts == 1 {
		n, _, errno = syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(r.iov[0].Base)), uintptr(r.iov[0].Len), 0, 0, 0)
	} else {
		n, _, errno = syscall.RawSyscall(syscall.SYS_WRITEV, fd, uintptr(unsafe.Pointer(&r.iov[0])), uintptr(parts))
	}
	return int(n), errno
}

// took drops n written bytes.
func (r *rawIO) took(n int) {
	r.sent += int64(n)
	for i, p := range r.out {
		k := min(n, len(p))
		r.out[i] = p[k:]
		n -= k
	}
}
