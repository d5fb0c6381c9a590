package server

import (
	"io"
	"net"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rawIO reads and writes a connection's non-blocking socket without telling Go's scheduler: such a call returns at once, and announcing
// it as one that may block costs more than a small one itself, and for a large one makes the runtime move the processor to another
// thread in the middle of it. Waiting is the netpoller's, with the connection's deadlines, as always.
type rawIO struct {
	conn       syscall.RawConn
	readReady  func(fd uintptr) bool // made once: closures on the way of each request would allocate
	writeReady func(fd uintptr) bool

	in    []byte // what readReady fills
	n     int    // bytes read by readReady
	errno syscall.Errno

	out  [2][]byte // what writeReady has left to write
	twin *twin     // where the second is sent from, nil for memory
	at   int64     // the place in twin's file
	sent int64
	iov  [2]syscall.Iovec
}

// rawLimit bounds one write: the garbage collector waits for it.
const rawLimit = 128 << 10

// sendLimit is the same for sending pages.
const sendLimit = 1 << 20

func newRawIO(c *net.TCPConn) *rawIO {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	r := &rawIO{conn: raw}
	r.readReady, r.writeReady = r.tryRead, r.tryWrite
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

func (r *rawIO) tryRead(fd uintptr) bool {
	for {
		n, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(r.in))), uintptr(len(r.in)))
		switch errno {
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			return false
		}
		r.n, r.errno = int(n), errno
		return true
	}
}

// write writes a and b and returns how much went out, which after a timeout may be a part. If w is not nil, b is the end of its body.
func (r *rawIO) write(a, b []byte, w *twin) (int64, error) {
	r.out, r.twin, r.sent, r.errno = [2][]byte{a, b}, w, 0, 0
	if w != nil {
		r.at = int64(len(w.body) - len(b))
	}
	err := r.conn.Write(r.writeReady)
	r.out, r.iov, r.twin = [2][]byte{}, [2]syscall.Iovec{}, nil
	if err == nil && r.errno != 0 {
		err = &net.OpError{Op: "write", Net: "tcp", Err: r.errno}
	}
	return r.sent, err
}

func (r *rawIO) tryWrite(fd uintptr) bool {
	for len(r.out[0])+len(r.out[1]) > 0 {
		n, errno := r.step(fd)
		switch errno {
		case 0:
			r.took(n)
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		default:
			r.errno = errno
			return true
		}
	}
	return true
}

// step does one system call.
func (r *rawIO) step(fd uintptr) (int, syscall.Errno) {
	if r.twin == nil {
		return r.writeOnce(fd)
	}
	if head := r.out[0]; len(head) > 0 {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(unsafe.SliceData(head))), uintptr(len(head)),
			unix.MSG_MORE, 0, 0)
		return int(n), errno
	}
	n, _, errno := syscall.RawSyscall6(syscall.SYS_SENDFILE, fd, uintptr(r.twin.fd), uintptr(unsafe.Pointer(&r.at)),
		uintptr(min(len(r.out[1]), sendLimit)), 0, 0)
	if errno == 0 && n == 0 {
		errno = syscall.EIO // a file shorter than its body: cannot be, and must not spin
	}
	return int(n), errno
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
		n, _, errno = syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(r.iov[0].Base)), uintptr(r.iov[0].Len))
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
