package origin

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"syscall"
	"time"
)

// plainConn is one connection of plain, at one exchange at a time. It belongs to the exchange's goroutine; closing conn is possible from any.
type plainConn struct {
	plain *plain
	conn  net.Conn
	br    *bufio.Reader
	raw   syscall.RawConn // nil if conn is no socket
	swap  func(fd uintptr) bool
	first firstSwap

	renewed   int // of plain when this was dialled
	idleSince time.Time
	used      bool // at least one exchange is behind

	// The exchange under way.
	heard    bool          // a byte of the response came
	failed   error         // why the last read from the connection failed
	readBy   time.Time     // the deadline of reading, if that was set by patience
	headLeft int           // bytes that its head may still have; negative: the head is over
	idle     time.Duration // limit on each silence of its body; 0: none
	polls    bool          // it polls before it waits
	polled   time.Duration // for how long it did
}

func newPlainConn(p *plain, c net.Conn, renewed int) *plainConn {
	pc := &plainConn{plain: p, conn: c, renewed: renewed}
	pc.br = bufio.NewReaderSize(pc, readBuffer)
	if tracked, ok := c.(*conn); ok {
		if sys, ok := tracked.Conn.(syscall.Conn); ok && canSwap {
			pc.raw, _ = sys.SyscallConn()
		}
	}
	pc.swap = pc.swapOn
	return pc
}

// limitHead sets the time for everything up to the response head.
func (c *plainConn) limitHead() {
	var deadline time.Time
	if limit := c.plain.t.cfg.Timeouts.Header; limit > 0 {
		deadline = time.Now().Add(limit)
	}
	c.readBy = time.Time{}
	_ = c.conn.SetDeadline(deadline) // fails on a closed connection only, which shows when it is used
}

// closedUnheard reports whether a kept connection turned out to be closed by the origin.
func (c *plainConn) closedUnheard(err error) bool {
	return c.used && !c.heard && classifyHead(err) == ClassReset
}

// exchange sends a request and reads the response's head. The connection goes back when the response's body was read to its end, and is closed
// on any error.
func (c *plainConn) exchange(o *outbound, head []byte) (*http.Response, error) {
	b := c.begin()
	b.watch(o.ctx)
	c.limitHead()
	if err := c.send(head); err != nil {
		b.Close()
		return nil, err
	}
	return c.respond(o, b)
}

// begin makes the connection ready for an exchange, which b holds.
func (c *plainConn) begin() (b *plainBody) {
	c.heard, c.failed, c.headLeft = false, nil, maxResponseHead
	c.polls, c.polled = false, 0
	return &plainBody{c: c}
}

// respond waits for the final response.
func (c *plainConn) respond(o *outbound, b *plainBody) (*http.Response, error) {
	resp, err := c.finalResponse(o, b)
	if err != nil {
		b.Close()
		return nil, err
	}
	return c.responded(resp, b), nil
}

// responded ends the head's part of an exchange.
func (c *plainConn) responded(resp *http.Response, b *plainBody) *http.Response {
	c.used, c.headLeft = true, -1
	if resp.Body == http.NoBody {
		b.end()
	} else {
		resp.Body = b
	}
	return resp
}

// maxInterim is how many 1xx responses an origin may send before its final one: more than any has a use for.
const maxInterim = 32

var errInterim = fmt.Errorf("more than %d interim responses", maxInterim)

func (c *plainConn) finalResponse(o *outbound, b *plainBody) (*http.Response, error) {
	trace := httptrace.ContextClientTrace(o.ctx)
	for interim := 0; ; interim++ {
		resp, err := c.readResponse(o, b)
		switch {
		case err != nil:
			return nil, c.headError(err)
		case resp.StatusCode < 100:
			return nil, &Error{Class: ClassProtocol, URL: c.plain.t.name, Err: errNoStatus}
		case resp.StatusCode == http.StatusSwitchingProtocols:
			return nil, &Error{Class: ClassProtocol, URL: c.plain.t.name, Err: errSwitched}
		case resp.StatusCode < 200 && resp.StatusCode >= 100 && interim == maxInterim:
			return nil, &Error{Class: ClassProtocol, URL: c.plain.t.name, Err: errInterim}
		case resp.StatusCode < 200 && resp.StatusCode >= 100:
			if trace != nil && trace.Got1xxResponse != nil {
				if err := trace.Got1xxResponse(resp.StatusCode, textproto.MIMEHeader(resp.Header)); err != nil {
					return nil, err
				}
				c.headLeft = maxResponseHead
			}
		default:
			return resp, nil
		}
	}
}

// headError prefers the connection's own failure, or the limit that was reached, to what the parser made of half a head.
func (c *plainConn) headError(err error) error {
	if c.failed != nil && c.failed != io.EOF {
		return c.failed
	}
	return err
}

var errHeadTooLarge = fmt.Errorf("response head over %d bytes", maxResponseHead)

// Read is for br: it reads from the network within the limits of the exchange's present part.
func (c *plainConn) Read(p []byte) (int, error) {
	switch {
	case c.failed != nil:
		return 0, c.failed
	case c.headLeft == 0:
		c.failed = errHeadTooLarge
		return 0, c.failed
	case c.headLeft > 0:
		p = p[:min(len(p), c.headLeft)]
	default:
		c.limitBody()
	}
	n, err := c.receive(p)
	c.heard, c.failed = c.heard || n > 0, err
	if c.headLeft > 0 {
		c.headLeft -= n
	}
	return n, err
}

func (c *plainConn) limitBody() {
	var deadline time.Time
	if c.idle > 0 {
		deadline = time.Now().Add(c.idle)
	}
	c.readBy = time.Time{}
	_ = c.conn.SetReadDeadline(deadline)
}

// isDeadline reports whether the limit of limitBody or limitHead was reached.
func isDeadline(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

var _ io.Reader = (*plainConn)(nil)
