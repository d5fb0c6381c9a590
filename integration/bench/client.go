package main

import (
	"bytes"
	"fmt"
	"net/netip"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// client is one connection kept open, on blocking sockets: between the kernel and the clock stand neither a poller nor a scheduler,
// whose moods would be as long as what is measured. Not safe for concurrent use.
type client struct {
	fd   int
	host string
	buf  []byte
	out  []byte
}

// patient is how long a client waits for one answer.
const patient = 5 * time.Second

func dial(addr string) (*client, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	limit := unix.NsecToTimeval(patient.Nanoseconds())
	if err := firstOf(
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit),
		unix.Connect(fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}),
	); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	return &client{fd: fd, host: addr, buf: make([]byte, 64<<10)}, nil
}

func (c *client) close() { _ = unix.Close(c.fd) }

// answer is what came back.
type answer struct {
	// sent and first are when the request was written and when the first bytes of the answer had come.
	sent, first time.Time
	// hit is what the proxy says of it in Cache-Status.
	hit bool
}

// get asks for a path and reads the whole answer.
func (c *client) get(path string) (a answer, err error) {
	c.out = fmt.Appendf(c.out[:0], "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, c.host)
	a.sent = time.Now()
	if _, err = unix.Write(c.fd, c.out); err != nil {
		return a, fmt.Errorf("write: %w", err)
	}
	n, err := c.read(0)
	if err != nil {
		return a, err
	}
	a.first = time.Now()
	for {
		head, rest, whole := bytes.Cut(c.buf[:n], []byte("\r\n\r\n"))
		if whole {
			a.hit = saysHit(head)
			return a, c.body(head, len(rest))
		}
		more, err := c.read(n)
		if err != nil {
			return a, err
		}
		n += more
	}
}

// body reads what is missing of a body of which have bytes came with the head.
func (c *client) body(head []byte, have int) error {
	if !bytes.HasPrefix(head, []byte("HTTP/1.1 200 ")) {
		line, _, _ := bytes.Cut(head, []byte("\r\n"))
		return fmt.Errorf("answered %q, not 200", line)
	}
	length, err := contentLength(head)
	for err == nil && have < length {
		var n int
		n, err = c.read(0)
		have += n
	}
	return err
}

// read waits for bytes and puts them into the buffer from offset at on.
func (c *client) read(at int) (int, error) {
	for {
		n, err := unix.Read(c.fd, c.buf[at:])
		switch {
		case err == unix.EINTR: // Go interrupts threads to share out their time
		case err != nil:
			return 0, fmt.Errorf("read: %w", err)
		case n == 0:
			return 0, fmt.Errorf("read: connection closed, or a head of more than %d bytes", len(c.buf))
		default:
			return n, nil
		}
	}
}

// field returns the value of a field of a response head, without regard to letter case.
func field(head []byte, name string) ([]byte, bool) {
	for line := range bytes.SplitSeq(head, []byte("\r\n")) {
		if n, value, ok := bytes.Cut(line, []byte(":")); ok && bytes.EqualFold(n, []byte(name)) {
			return bytes.TrimSpace(value), true
		}
	}
	return nil, false
}

func contentLength(head []byte) (int, error) {
	value, ok := field(head, "Content-Length")
	if !ok {
		return 0, fmt.Errorf("an answer without Content-Length")
	}
	return strconv.Atoi(string(value))
}

// saysHit tells whether the member of Cache-Status has the parameter hit (RFC 9211 §2.1).
func saysHit(head []byte) bool {
	value, _ := field(head, "Cache-Status")
	for param := range bytes.SplitSeq(value, []byte(";")) {
		if string(bytes.TrimSpace(param)) == "hit" {
			return true
		}
	}
	return false
}

// onCore runs f on a thread of its own on a core, one that wakes up when it is to. The thread ends with it.
func onCore(core int, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: Go ends the thread with the goroutine
		set := unix.CPUSet{}
		set.Set(core)
		if err := firstOf(unix.SchedSetaffinity(0, &set), unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)); err != nil {
			done <- fmt.Errorf("pin to core %d: %w", core, err)
			return
		}
		done <- f()
	}()
	return <-done
}
