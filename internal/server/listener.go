package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// listener accepts on one address and prepares what it accepts for net/http.
type listener struct {
	server *Server
	ln     net.Listener
	tls    *tls.Config // nil on plain addresses
}

// bindAll binds every address, or none if one cannot be bound.
func (s *Server) bindAll() error {
	for _, a := range s.o.Listen {
		if err := s.bind(a, s.tlsConfig); err != nil {
			return err
		}
	}
	for _, a := range s.o.ListenPlain {
		if err := s.bind(a, nil); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) bind(addr string, cfg *tls.Config) error {
	ln, err := net.Listen("tcp", addr)
	if err == nil && cfg == nil && s.o.Hits != nil {
		ln, err = listenSockets(ln)
	}
	if err != nil {
		s.unbind()
		return fmt.Errorf("server: listen: %w", err)
	}
	s.listeners = append(s.listeners, &listener{server: s, ln: ln, tls: cfg})
	return nil
}

func (s *Server) unbind() {
	for _, l := range s.listeners {
		_ = l.ln.Close()
	}
	s.listeners = nil
}

// lastAccept is how long a listener goes on accepting after it was told to stop: connections that the kernel has already completed
// would be reset if it closed at once. If there still are some then, it does so again, lastRounds times in all.
const (
	lastAccept = 25 * time.Millisecond
	lastRounds = 40
)

// run accepts until the server stops.
func (l *listener) run() {
	defer l.ln.Close()
	pause, rounds := time.Duration(0), 1
	for l.server.links.reserve(l.server.stopping) {
		c, err := l.ln.Accept()
		if err == nil {
			pause = 0
			l.accepted(c)
			continue
		}
		l.server.links.release()
		switch stopping := l.server.isStopping(); {
		case stopping && errors.Is(err, os.ErrDeadlineExceeded) && rounds < lastRounds && waiting(l.ln):
			rounds++
			_ = l.acceptUntil(time.Now().Add(lastAccept)) // a deadline that has passed hides what has come before it
		case stopping, !l.retry(err, &pause):
			return
		}
	}
	l.drainBacklog()
}

// acceptUntil sets when accepting ends.
func (l *listener) acceptUntil(t time.Time) error {
	d, ok := l.ln.(interface{ SetDeadline(time.Time) error })
	if !ok {
		return errors.ErrUnsupported
	}
	return d.SetDeadline(t)
}

// retry waits after a passing failure, such as too many open files. A listener that is broken is reported.
func (l *listener) retry(err error, pause *time.Duration) bool {
	if errors.Is(err, net.ErrClosed) {
		l.server.fail(err)
		return false
	}
	*pause = min(max(2**pause, 5*time.Millisecond), time.Second)
	l.server.say.warn(err, "accept failed, trying again")
	select {
	case <-time.After(*pause):
		return true
	case <-l.server.stopping:
		return true
	}
}

// drainBacklog takes connections that came before the stop but found the bound of MaxConns reached.
func (l *listener) drainBacklog() {
	for {
		c, err := l.ln.Accept()
		if err != nil {
			return
		}
		_ = c.Close()
	}
}

// accepted hands a connection on, through a handshake if the address speaks TLS.
func (l *listener) accepted(raw net.Conn) {
	s := l.server
	s.stats.accepted.Add(1)
	lk := s.links.add(raw)
	if l.tls == nil {
		if c := newConn(lk, raw, s); !c.joinLoop() {
			s.offer(c)
		}
		return
	}
	s.handshakes.Go(func() { l.handshake(lk) })
}

// handshake runs a TLS handshake under the header timeout and hands the result on: HTTP/2 as net/http wants it, HTTP/1 with our
// checks on top.
func (l *listener) handshake(lk link) {
	s := l.server
	ctx, cancel := context.WithTimeout(s.life, s.o.ReadHeaderTimeout)
	defer cancel()
	t := tls.Server(&tlsLink{link: lk, idle: s.o.WriteIdle}, l.tls)
	if err := t.HandshakeContext(ctx); err != nil {
		s.stats.handshakes.Add(1)
		s.say.debug(err, "TLS handshake failed", lk.RemoteAddr())
		_ = lk.Close()
		return
	}
	if t.ConnectionState().NegotiatedProtocol == "h2" {
		s.offer(t)
		return
	}
	s.offer(tlsHTTP1{conn: newConn(lk, t, s), tls: t})
}

// offer gives a connection to net/http.
func (s *Server) offer(c net.Conn) {
	select {
	case s.queue.conns <- c:
	case <-s.queue.closed:
		_ = c.Close()
	}
}

// queue is the net.Listener that net/http accepts from.
type queue struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
	addr   net.Addr
}

// Accept waits for the next connection.
func (q *queue) Accept() (net.Conn, error) {
	select {
	case c := <-q.conns:
		return c, nil
	case <-q.closed:
		return nil, net.ErrClosed
	}
}

// Close makes Accept return.
func (q *queue) Close() error {
	q.once.Do(func() { close(q.closed) })
	return nil
}

// Addr is the first bound address.
func (q *queue) Addr() net.Addr { return q.addr }

// stopAccepting ends the accepting goroutines once what the kernel had completed is taken in.
func (s *Server) stopAccepting() {
	for _, l := range s.listeners {
		if l.acceptUntil(time.Now().Add(lastAccept)) != nil {
			_ = l.ln.Close()
		}
	}
	s.accepting.Wait()
	s.handshakes.Wait()
}
