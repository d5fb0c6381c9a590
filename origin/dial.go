package origin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// dialer makes one URL's connections and gives each failure its class: net/http's own errors do not tell a late
// handshake from a late response head.
//
// Safe for concurrent use.
type dialer struct {
	dial       func(ctx context.Context, network, addr string) (net.Conn, error)
	connect    time.Duration // 0: no limit
	handshake  time.Duration // 0: no limit
	url        string        // for errors
	open       *connSet
	tlsClient  *tls.Config // nil unless https
	tlsUpgrade *tls.Config // the same without HTTP/2: an upgrade needs HTTP/1.1
}

// tcp connects within the limit.
func (d *dialer) tcp(ctx context.Context, network, addr string) (net.Conn, error) {
	if d.connect > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.connect)
		defer cancel()
	}
	c, err := d.dial(ctx, network, addr)
	if err != nil {
		return nil, &Error{Class: classifyDial(err), URL: d.url, Err: err}
	}
	return d.open.adopt(c)
}

func classifyDial(err error) Class {
	if dns, ok := errors.AsType[*net.DNSError](err); ok && !dns.IsTimeout {
		return ClassDNS
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return ClassConnectTimeout
	}
	return ClassConnect
}

// tls connects and shakes hands, offering HTTP/2.
func (d *dialer) tls(ctx context.Context, network, addr string) (net.Conn, error) {
	return d.shake(ctx, network, addr, d.tlsClient)
}

// tlsHTTP1 connects and shakes hands, offering HTTP/1.1 only.
func (d *dialer) tlsHTTP1(ctx context.Context, network, addr string) (net.Conn, error) {
	return d.shake(ctx, network, addr, d.tlsUpgrade)
}

func (d *dialer) shake(ctx context.Context, network, addr string, cfg *tls.Config) (net.Conn, error) {
	raw, err := d.tcp(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if d.handshake > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.handshake)
		defer cancel()
	}
	c := tls.Client(raw, cfg)
	if err := c.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, &Error{Class: ClassTLS, URL: d.url, Err: fmt.Errorf("handshake: %w", err)}
	}
	return c, nil
}

// connSet holds the open connections of one URL, so that Close can cut them and Status count them.
//
// Safe for concurrent use.
type connSet struct {
	mu     sync.Mutex // guards following
	conns  map[*conn]struct{}
	closed bool
}

// adopt takes c in, or closes it when the set is closed.
func (s *connSet) adopt(c net.Conn) (net.Conn, error) {
	tracked := &conn{Conn: c, set: s}
	if !s.add(tracked) {
		c.Close()
		return nil, &Error{Class: ClassClosed, Err: ErrClosed}
	}
	return tracked, nil
}

func (s *connSet) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.conns == nil {
		s.conns = make(map[*conn]struct{})
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *connSet) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

func (s *connSet) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// closeAll cuts every connection and refuses new ones.
func (s *connSet) closeAll() {
	s.mu.Lock()
	conns := s.conns
	s.conns, s.closed = nil, true
	s.mu.Unlock()
	for c := range conns {
		c.Conn.Close()
	}
}

// conn is a connection that knows its set.
type conn struct {
	net.Conn
	set *connSet
}

// Close closes the connection and takes it out of its set.
func (c *conn) Close() error {
	c.set.remove(c)
	return c.Conn.Close()
}

// CloseWrite ends the sending side, which upgraded connections do.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return fmt.Errorf("close write: %w", errors.ErrUnsupported)
}
