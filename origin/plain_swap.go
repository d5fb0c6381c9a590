package origin

import (
	"io"
	"net"
	"os"
	"time"
)

// firstSwap is the first step of an exchange on a socket: look whether it is silent, write the request, wait, read what comes, with one registration
// in the poller. Apart they would cost two vain reads and three registrations.
type firstSwap struct {
	head  []byte // still to be sent; nil: nothing is pending
	into  []byte
	n     int
	err   error
	state swapState
}

// swapState is how far a firstSwap has come. A closed enum.
type swapState uint8

const (
	swapLook swapState = iota
	swapWait
	swapShort // the socket took only a part of the request
	swapDone
)

// send sends a request head, or leaves it to the first receive where that can do both.
func (c *plainConn) send(head []byte) error {
	if c.raw != nil {
		c.first = firstSwap{head: head}
		return nil
	}
	_, err := c.conn.Write(head)
	return err
}

// receive reads from the connection, once what is to be sent has been sent.
func (c *plainConn) receive(p []byte) (int, error) {
	f := &c.first
	if f.head == nil {
		return c.conn.Read(p)
	}
	f.into = p
	err := c.raw.Read(c.swap)
	head := f.head
	f.head, f.into = nil, nil
	switch {
	case err != nil:
		return 0, err
	case f.state == swapShort:
		if _, err := c.conn.Write(head); err != nil {
			return 0, err
		}
		return c.conn.Read(p)
	case f.err != nil:
		return 0, &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", f.err)}
	case f.n == 0:
		return 0, io.EOF
	default:
		return f.n, nil
	}
}

// swapOn is called when the swap begins and each time the socket may have something to read. True ends the swap.
func (c *plainConn) swapOn(fd uintptr) bool {
	f := &c.first
	if f.state == swapLook {
		f.look(fd, c.used)
		return f.state != swapWait || c.polls && c.poll(fd)
	}
	return f.read(fd)
}

// poll reads until something comes or it has taken too long. True ends the swap.
func (c *plainConn) poll(fd uintptr) bool {
	for began := time.Now(); c.polled < pollFor; c.polled = time.Since(began) {
		if c.first.read(fd) {
			return true
		}
	}
	return false
}

// read reads what there is. False means that there is nothing yet.
func (f *firstSwap) read(fd uintptr) bool {
	f.n, f.err = rawRead(fd, f.into)
	if again(f.err) {
		return false
	}
	f.state = swapDone
	return true
}

// look writes the request if the connection has been silent since the last response. Bytes that nobody asked for (a 408 before the origin closes)
// would be taken for the next response: they count as the end of the connection.
func (f *firstSwap) look(fd uintptr, used bool) {
	f.state = swapDone
	if used {
		if _, err := rawRead(fd, f.into[:1]); !again(err) {
			f.err = err
			return
		}
	}
	n, err := rawWrite(fd, f.head)
	switch {
	case err != nil && !again(err):
		f.err = err
	case n < len(f.head):
		f.head, f.state = f.head[n:], swapShort
	default:
		f.state = swapWait
	}
}
