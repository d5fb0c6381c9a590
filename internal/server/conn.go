package server

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"
)

// conn is what net/http sees of an HTTP/1 connection. It reads ahead into its own buffer and hands on one message at a
// time, so it always knows whether bytes belong to a request under way.
//
// Read is called by one goroutine at a time, net/http's serving or its background one, which it orders itself; the fields of the
// reading side need no lock for that reason. Deadlines and Close come from anywhere.
type conn struct {
	link
	inner  net.Conn // the connection to read and write: the link's, or TLS on top of it
	tcp    tcp      // inner if it is TCP without TLS, else nil
	raw    *rawIO   // reads and writes tcp, nil without it or where the system has none
	server *Server
	held   held // by writes to tcp

	buf     []byte // buf[r:w] was read and not yet handed on
	r, w    int
	ready   int // bytes from r on that may be handed on now
	scanned int // bytes from r on that are known not to end a head
	skipped int // empty lines before it
	phase   phase
	timing  bool  // the header timeout runs
	left    int64 // of a framingLength body
	chunks  chunkScan
	hits    hitSide
	loopSide

	mu           sync.Mutex // guards following
	readDeadline time.Time  // as net/http set it
	writeUser    time.Time  // as net/http or a handler set it
	writeArmed   time.Time  // the inner connection's present one

	wake   chan struct{} // holds one element while readDeadline is in the past
	closed chan struct{}
	once   sync.Once
}

// tcp is a TCP connection: a [socket], or net's.
type tcp interface {
	net.Conn
	io.ReaderFrom
	syscall.Conn
	CloseWrite() error
}

// phase is what the next bytes on a connection are. A closed enum.
type phase uint8

const (
	// phaseHead is between requests, or within a head that is not complete.
	phaseHead phase = iota
	// phaseLength and phaseChunked are within a body.
	phaseLength
	phaseChunked
	// phaseHeld is behind a whole request whose answer is not out yet. Whatever arrives waits here, so that net/http's
	// background read, which is there to notice a client's going, never takes a byte of the next request.
	phaseHeld
	// phaseTunnel is a connection that was hijacked or speaks HTTP/2: all bytes pass as they are.
	phaseTunnel
	// phaseBroken is a connection from which nothing is read any more.
	phaseBroken
)

// bufferSize is how much is read at once. A head that is longer goes to net/http.
const bufferSize = 8 << 10

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

func newBuffer() []byte { return buffers.Get().(*[bufferSize]byte)[:] }

// dropBuffer gives an empty buffer back.
func (c *conn) dropBuffer() {
	b := c.buf
	c.buf, c.r, c.w = nil, 0, 0
	if len(b) == bufferSize {
		buffers.Put((*[bufferSize]byte)(b))
	}
}

func newConn(l link, inner net.Conn, s *Server) *conn {
	c := &conn{
		link: l, inner: inner, server: s,
		wake: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	if t, ok := inner.(tcp); ok {
		c.tcp, c.raw = t, newRawIO(t)
		if c.raw != nil {
			c.hits = hitSide{source: s.o.Hits, remote: t.RemoteAddr().String()}
		}
	}
	return c
}

// Read hands on bytes of the present message.
func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for c.ready == 0 {
		if n, done, err := c.advance(p); done {
			return n, err
		}
	}
	n := copy(p, c.buf[c.r:c.r+c.ready])
	c.consume(n)
	return n, nil
}

// advance makes bytes ready, or answers the Read itself: done is then true.
func (c *conn) advance(p []byte) (n int, done bool, err error) {
	switch c.phase {
	case phaseHead:
		err = c.readHead()
		return 0, err != nil, err
	case phaseLength:
		return c.readLength(p)
	case phaseChunked:
		err = c.readChunked()
		return 0, err != nil, err
	case phaseHeld:
		return 0, true, c.hold()
	case phaseTunnel:
		return c.readTunnel(p)
	default:
		return 0, true, io.EOF
	}
}

func (c *conn) buffered() []byte { return c.buf[c.r:c.w] }

// consume drops n ready bytes from the buffer.
func (c *conn) consume(n int) {
	c.r += n
	c.ready -= n
	c.scanned = 0
	if c.r == c.w {
		c.r, c.w = 0, 0
		if len(c.buf) > bufferSize {
			c.buf = nil
		}
	}
}

// readHead gathers and checks the next head and makes it ready. What the hit path can answer does not get that far.
func (c *conn) readHead() error {
	for {
		if c.looped() && c.w == c.r {
			if err := c.await(); err != nil {
				return err
			}
		}
		end, r := c.findHead()
		if r != refusalNone {
			return c.refuse(r)
		}
		if end == 0 && c.looped() && c.w == c.r {
			continue // nothing but empty lines
		}
		if end == 0 {
			if err := c.fillHead(); err != nil {
				return err
			}
			continue
		}
		h, r := scanHead(c.buf[c.r : c.r+end])
		if r != refusalNone {
			return c.refuse(r)
		}
		c.begin(h, end)
		return nil
	}
}

// findHead returns the length of the head at the start of the buffer, 0 if it is not complete.
func (c *conn) findHead() (end int, r refusal) {
	if c.scanned == 0 {
		n := skipEmptyLines(c.buffered(), maxEmptyLines-c.skipped)
		c.r += n * len(crlf)
		c.skipped += n
	}
	b := c.buffered()
	if !plausibleStart(b) {
		return 0, refusalSyntax
	}
	end, c.scanned = headEnd(b, c.scanned)
	if end > c.server.o.MaxHeaderBytes || (end == 0 && len(b) > c.server.o.MaxHeaderBytes) {
		return 0, refusalHeadSize
	}
	return end, refusalNone
}

// begin starts a message whose head has n bytes.
func (c *conn) begin(h head, n int) {
	c.ready = n
	c.skipped = 0
	c.timing = false
	if h.framing != framingNone {
		c.unwatch()
	}
	switch h.framing {
	case framingLength:
		c.phase, c.left = phaseLength, h.length
	case framingChunked:
		c.phase, c.chunks = phaseChunked, chunkScan{}
	case framingTunnel:
		c.phase = phaseTunnel
	default:
		c.phase = phaseHeld
	}
}

// fillHead reads more of a head. The wait for its first byte is net/http's idle timeout, the rest the header timeout.
func (c *conn) fillHead() error {
	within := c.w > c.r
	if within {
		c.armHeader()
	}
	err := c.fill(c.server.o.MaxHeaderBytes + 1)
	if within && errors.Is(err, os.ErrDeadlineExceeded) {
		return c.refuse(refusalHeadTime)
	}
	return err
}

// readLength passes a body of known length, past the buffer where it can.
func (c *conn) readLength(p []byte) (n int, done bool, err error) {
	if c.left == 0 {
		c.phase = phaseHeld
		return 0, false, nil
	}
	if have := int64(c.w - c.r); have > 0 {
		c.ready = int(min(have, c.left))
		c.left -= int64(c.ready)
		return 0, false, nil
	}
	c.armBody()
	n, err = c.inner.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	c.bodyRead(err)
	return n, true, err
}

// readChunked makes the next piece of a chunked body ready.
func (c *conn) readChunked() error {
	if c.chunks.done() {
		c.phase = phaseHeld
		return nil
	}
	if c.w == c.r {
		c.armBody()
		err := c.fill(bufferSize)
		c.bodyRead(err)
		if err != nil {
			return err
		}
	}
	n, ok := c.chunks.advance(c.buffered())
	if !ok {
		c.server.stats.refused[refusalBody].Add(1)
		n = c.spoil(n)
	}
	c.ready = n
	return nil
}

// spoil ends the connection's input n bytes from here with something that net/http refuses. An error from Read would do as well for the body, but
// net/http would take it for the client's going, cancel the request, and nobody would be answered.
func (c *conn) spoil(n int) int {
	c.phase = phaseBroken
	end := c.r + n
	c.buf = append(c.buf[:end:end], c.chunks.spoiler()...)
	c.w = len(c.buf)
	return c.w - c.r
}

// hold answers net/http's background read: it returns when the client is gone or net/http ends the read, with an error
// both times.
func (c *conn) hold() error {
	switch {
	case c.w > c.r:
	case c.looped():
		if err := c.holdWatched(); err != nil {
			return err
		}
	default:
		if err := c.fill(bufferSize); err != nil {
			return err
		}
	}
	select {
	case <-c.wake:
		return os.ErrDeadlineExceeded
	case <-c.closed:
		return net.ErrClosed
	}
}

func (c *conn) readTunnel(p []byte) (n int, done bool, err error) {
	if c.w > c.r {
		c.ready = c.w - c.r
		return 0, false, nil
	}
	n, err = c.inner.Read(p)
	return n, true, err
}

// fill reads once into the buffer, which may grow to limit bytes.
func (c *conn) fill(limit int) error {
	c.makeRoom(limit)
	n, err := c.readSome(c.buf[c.w:])
	c.w += n
	if n > 0 {
		return nil // an error comes again with the next read
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

func (c *conn) readSome(p []byte) (int, error) {
	if c.raw != nil {
		return c.raw.read(p)
	}
	return c.inner.Read(p)
}

func (c *conn) makeRoom(limit int) {
	switch {
	case c.buf == nil:
		c.buf = newBuffer()
	case c.w < len(c.buf):
	case c.r > 0:
		c.w = copy(c.buf, c.buf[c.r:c.w])
		c.r = 0
	default:
		grown := make([]byte, min(2*len(c.buf), max(limit, len(c.buf)+1)))
		copy(grown, c.buf)
		c.buf = grown
	}
}

// stateChanged follows net/http's own view of the connection. It is called on the goroutine that serves it, when no read
// is under way.
func (c *conn) stateChanged(s http.ConnState) {
	switch {
	case c.phase == phaseTunnel: // HTTP/2 reports its own states
	case s == http.StateIdle:
		c.phase = c.afterMessage()
	case s == http.StateHijacked:
		c.phase = phaseTunnel
		c.unwatch()
	}
}

// afterMessage returns the phase that follows when net/http says that it is through with a message. If it is through
// before the message is, the two disagree about framing, and nothing more is read from the connection.
func (c *conn) afterMessage() phase {
	whole := c.phase == phaseHeld || (c.phase == phaseLength && c.left == 0) || (c.phase == phaseChunked && c.chunks.done())
	if !whole || c.ready > 0 {
		return phaseBroken
	}
	return phaseHead
}
