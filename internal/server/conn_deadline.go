package server

import (
	"errors"
	"os"
	"time"
)

// SetDeadline sets both deadlines.
func (c *conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetReadDeadline is how net/http bounds waits and how it ends its background read.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readDeadline = t
	select {
	case <-c.wake:
	default:
	}
	if past(t) {
		c.wake <- struct{}{} // cannot block: it was just emptied, and only filled under mu
	}
	return c.inner.SetReadDeadline(t)
}

func past(t time.Time) bool { return !t.IsZero() && !t.After(time.Now()) }

// armHeader starts the header timeout at a head's first bytes, once for each head. It replaces what net/http set for the wait
// before; nothing can want to end the read, as net/http only does that to its background reads.
func (c *conn) armHeader() {
	if c.timing {
		return
	}
	c.timing = true
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armReadLocked(c.server.o.ReadHeaderTimeout)
}

// armBody gives the next body read its own limit, unless a handler has set a nearer deadline: one in the past is its wish to stop.
func (c *conn) armBody() {
	d := c.server.o.ReadBodyIdle
	if d == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.readDeadline.IsZero() || time.Until(c.readDeadline) > d {
		c.armReadLocked(d)
	}
}

// bodyRead ends a body that stood still for too long: who answers that must not wait for it again.
func (c *conn) bodyRead(err error) {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !past(c.readDeadline) {
		c.phase = phaseBroken
	}
}

func (c *conn) armReadLocked(d time.Duration) {
	_ = c.inner.SetReadDeadline(time.Now().Add(d)) // a closed connection says so at the read
}

// armLinger bounds the wait for a refused client's last bytes.
func (c *conn) armLinger() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armReadLocked(lingerTime)
}

// SetWriteDeadline sets a limit for writes beside that of Options.WriteIdle; zero removes it.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.IsZero() && c.writeUser.IsZero() {
		return nil // after every response; the idle limit is renewed before every write anyway
	}
	c.writeUser, c.writeArmed = t, time.Time{}
	return c.inner.SetWriteDeadline(t)
}

// writeOver tells whether a timed-out write has met a deadline that somebody set, and not only the idle limit.
func (c *conn) writeOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return past(c.writeUser)
}
