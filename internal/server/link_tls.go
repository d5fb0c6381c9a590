package server

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// tlsLink is a link under TLS. It keeps the idle limit of writes, because crypto/tls cannot go on after a write that timed out: here such a write waits
// on for as long as the client takes bytes, and TLS never hears of it. A deadline that somebody sets comes on top and is exact.
// Safe for concurrent use.
type tlsLink struct {
	link
	idle time.Duration // how long a write may wait for a client that takes nothing, 0 for ever
	held held

	mu      sync.Mutex // guards following
	writing int        // writes under way
	user    time.Time  // the deadline that was set
	armed   time.Time  // the one that the connection has
	wait    writeWait  // of the write under way, or the last
	failed  error      // of a write: TLS cannot go on after half a record, and its last words need not wait as well
}

// connContext lets the guards of HTTP/2 streams see how their connection's writes fare.
func (s *Server) connContext(ctx context.Context, c net.Conn) context.Context {
	switch c := c.(type) {
	case *conn:
		return context.WithValue(ctx, heldKey{}, &c.held)
	case *tls.Conn:
		if l, ok := c.NetConn().(*tlsLink); ok {
			return context.WithValue(ctx, heldKey{}, &l.held)
		}
	}
	return ctx
}

// SetWriteDeadline bounds writes, also one that is under way.
func (l *tlsLink) SetWriteDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.user = t
	if l.writing == 0 {
		return nil // the next write sees to it
	}
	return l.armLocked()
}

// SetDeadline bounds reads and writes.
func (l *tlsLink) SetDeadline(t time.Time) error {
	if err := l.SetReadDeadline(t); err != nil {
		return err
	}
	return l.SetWriteDeadline(t)
}

// Write writes all of p, unless the client takes nothing for the idle limit or the deadline comes.
func (l *tlsLink) Write(p []byte) (n int, err error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	for {
		m, err := l.link.Write(p[n:])
		n += m
		if err == nil || !l.goOn(m, err) {
			l.end(m, err)
			return n, err
		}
	}
}

func (l *tlsLink) begin() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		return l.failed
	}
	l.wait.resume(l.idle)
	if err := l.armLocked(); err != nil {
		return err
	}
	l.writing++
	return nil
}

func (l *tlsLink) end(wrote int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writing--
	l.wait.sent(wrote)
	if err != nil {
		l.failed = err
	}
	l.held.after(&l.wait, l.idle)
}

// goOn tells whether a write that ended early has a new deadline and may continue.
func (l *tlsLink) goOn(wrote int, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.idle == 0 || past(l.user) || !l.wait.goOn(l.Conn, int64(wrote), err) {
		return false
	}
	l.held.after(&l.wait, l.idle)
	return l.armLocked() == nil
}

// armLocked gives the connection the deadline of the wait, unless the one that it has will do.
func (l *tlsLink) armLocked() error {
	deadline := l.user
	if l.idle > 0 {
		now := time.Now()
		if deadline = nearer(now.Add(lookEvery(l.idle)), l.user); !deadline.Equal(l.user) && fits(l.armed.Sub(now), l.idle) {
			return nil
		}
	}
	if deadline.Equal(l.armed) {
		return nil
	}
	l.armed = deadline
	return l.link.SetWriteDeadline(deadline)
}
