package server

import (
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// socket is an accepted TCP connection that Go's poller does not know until somebody wants to wait for it: the poller hears of each packet, and a
// connection that rests with a loop has no use for that. Who may wait gets a net.TCPConn, which is made then and has a descriptor of its own.
// Safe for concurrent use.
type socket struct {
	fd     int
	remote *net.TCPAddr

	mu     sync.Mutex // guards following
	users  int        // of fd, in Control
	closed bool
	waiter *net.TCPConn // nil until somebody waits
}

// tcp returns the connection for who may wait.
func (s *socket) tcp() (*net.TCPConn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, net.ErrClosed
	}
	if s.waiter == nil {
		var err error
		if s.waiter, err = tcpConn(s.fd); err != nil {
			return nil, err
		}
	}
	return s.waiter, nil
}

// tcpConn makes a connection with a descriptor of its own.
func tcpConn(fd int) (*net.TCPConn, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	f := os.NewFile(uintptr(own), "tcp")
	defer f.Close()
	c, err := net.FileConn(f) // takes another one
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil // no other socket comes from a TCP listener
}

// Close closes the connection, also under who waits for it.
func (s *socket) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	s.closed = true
	s.releaseLocked()
	if s.waiter != nil {
		return s.waiter.Close()
	}
	return nil
}

func (s *socket) releaseLocked() {
	if s.closed && s.users == 0 {
		_ = unix.Close(s.fd) // what was written is the kernel's to send
	}
}

// Read waits for bytes.
func (s *socket) Read(p []byte) (int, error) {
	c, err := s.tcp()
	if err != nil {
		return 0, err
	}
	return c.Read(p)
}

// Write waits until all is written.
func (s *socket) Write(p []byte) (int, error) {
	c, err := s.tcp()
	if err != nil {
		return 0, err
	}
	return c.Write(p)
}

// ReadFrom is net.TCPConn's, with sendfile and splice.
func (s *socket) ReadFrom(src io.Reader) (int64, error) {
	c, err := s.tcp()
	if err != nil {
		return 0, err
	}
	return c.ReadFrom(src)
}

// CloseWrite tells the peer that nothing more comes.
func (s *socket) CloseWrite() error {
	var failed error
	err := rawSocket{s}.Control(func(fd uintptr) { failed = os.NewSyscallError("shutdown", unix.Shutdown(int(fd), unix.SHUT_WR)) })
	return errors.Join(err, failed)
}

// SetDeadline bounds waits.
func (s *socket) SetDeadline(t time.Time) error { return s.bound((*net.TCPConn).SetDeadline, t) }

// SetReadDeadline bounds waits of Read.
func (s *socket) SetReadDeadline(t time.Time) error {
	return s.bound((*net.TCPConn).SetReadDeadline, t)
}

// SetWriteDeadline bounds waits of Write.
func (s *socket) SetWriteDeadline(t time.Time) error {
	return s.bound((*net.TCPConn).SetWriteDeadline, t)
}

func (s *socket) bound(set func(*net.TCPConn, time.Time) error, t time.Time) error {
	c, err := s.tcp()
	if err != nil {
		return err
	}
	return set(c, t)
}

// RemoteAddr is the peer's address.
func (s *socket) RemoteAddr() net.Addr { return s.remote }

// LocalAddr asks the system, as few want to know; an address without an IP says that the connection is closed.
func (s *socket) LocalAddr() net.Addr {
	var sa unix.Sockaddr
	_ = rawSocket{s}.Control(func(fd uintptr) { sa, _ = unix.Getsockname(int(fd)) })
	return tcpAddr(sa)
}

func (s *socket) use() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.users++
	return true
}

func (s *socket) unuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users--
	s.releaseLocked()
}

// SyscallConn is for who reads and writes by system calls.
func (s *socket) SyscallConn() (syscall.RawConn, error) { return rawSocket{s}, nil }

// rawSocket is a socket's syscall.RawConn. Its Control does not make Go's poller know the connection.
type rawSocket struct{ s *socket }

// Control calls f, which must not wait.
func (r rawSocket) Control(f func(fd uintptr)) error {
	if !r.s.use() {
		return net.ErrClosed
	}
	defer r.s.unuse()
	f(uintptr(r.s.fd))
	return nil
}

// Read calls f each time that there may be something to read, until it returns true.
func (r rawSocket) Read(f func(fd uintptr) bool) error {
	raw, err := r.waiter()
	if err != nil {
		return err
	}
	return raw.Read(f)
}

// Write calls f each time that there may be room to write, until it returns true.
func (r rawSocket) Write(f func(fd uintptr) bool) error {
	raw, err := r.waiter()
	if err != nil {
		return err
	}
	return raw.Write(f)
}

func (r rawSocket) waiter() (syscall.RawConn, error) {
	c, err := r.s.tcp()
	if err != nil {
		return nil, err
	}
	return c.SyscallConn()
}

// socketListener accepts sockets. It is a net.Listener.
type socketListener struct {
	file *os.File // a listening socket that Go's poller knows
	raw  syscall.RawConn
	addr net.Addr
}

// listenSockets makes a listener of sockets of one of net's, which it closes.
func listenSockets(ln net.Listener) (net.Listener, error) {
	defer ln.Close()
	f, err := ln.(*net.TCPListener).File()
	if err != nil {
		return nil, err
	}
	raw, err := f.SyscallConn()
	if err != nil {
		_ = f.Close() // the error at hand says more
		return nil, err
	}
	return &socketListener{file: f, raw: raw, addr: ln.Addr()}, nil
}

// Accept waits for the next connection.
func (l *socketListener) Accept() (net.Conn, error) {
	var fd int
	var sa unix.Sockaddr
	var err error
	over := l.raw.Read(func(listening uintptr) bool {
		fd, sa, err = accept(int(listening))
		return err != unix.EAGAIN
	})
	switch {
	case errors.Is(over, os.ErrDeadlineExceeded):
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.addr, Err: over}
	case over != nil:
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.addr, Err: net.ErrClosed} // there is no other way for it to end
	case err != nil:
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.addr, Err: os.NewSyscallError("accept4", err)}
	}
	settle(fd)
	return &socket{fd: fd, remote: tcpAddr(sa)}, nil
}

// accept takes the next connection that has not gone already.
func accept(listening int) (fd int, sa unix.Sockaddr, err error) {
	for {
		fd, sa, err = unix.Accept4(listening, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err != unix.EINTR && err != unix.ECONNABORTED {
			return fd, sa, err
		}
	}
}

// keepAlive is after how many seconds of silence, and how often then, a peer is asked whether it is there; unanswered nine times it is not. All of these are net's.
const keepAlive = 15

// settle sets on a connection what net sets. A socket that does not take an option works without.
func settle(fd int) {
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, keepAlive)
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, keepAlive)
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 9)
}

// SetDeadline ends the wait of Accept.
func (l *socketListener) SetDeadline(t time.Time) error { return l.file.SetDeadline(t) }

// SyscallConn is for who asks about the listening socket.
func (l *socketListener) SyscallConn() (syscall.RawConn, error) { return l.raw, nil }

// Close makes Accept fail.
func (l *socketListener) Close() error { return l.file.Close() }

// Addr is the bound address.
func (l *socketListener) Addr() net.Addr { return l.addr }

// tcpAddr is a socket address as net has it, an empty one for nil.
func tcpAddr(sa unix.Sockaddr) *net.TCPAddr {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return &net.TCPAddr{IP: sa.Addr[:], Port: sa.Port}
	case *unix.SockaddrInet6:
		return &net.TCPAddr{IP: sa.Addr[:], Port: sa.Port, Zone: zone(sa.ZoneId)}
	}
	return new(net.TCPAddr)
}

// zone is the name of the interface that an address is local to.
func zone(index uint32) string {
	if index == 0 {
		return ""
	}
	ifi, err := net.InterfaceByIndex(int(index))
	if err != nil {
		return strconv.FormatUint(uint64(index), 10) // as net does
	}
	return ifi.Name
}
