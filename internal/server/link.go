package server

import (
	"crypto/tls"
	"net"
	"sync"
)

// link is an accepted connection in the server's books, from accept to close.
type link struct {
	net.Conn
	entry *linkEntry
}

type linkEntry struct {
	conn  net.Conn
	links *links
	once  sync.Once
}

// Close closes the connection and takes it off the books.
func (l link) Close() error {
	err := l.Conn.Close()
	l.forget()
	return err
}

func (l link) forget() { l.entry.once.Do(func() { l.entry.links.remove(l.entry) }) }

// links are the open connections. Safe for concurrent use.
type links struct {
	slots chan struct{} // one element for each open connection; nil without a bound

	mu   sync.Mutex // guards following
	open map[*linkEntry]struct{}
	idle chan struct{} // closed when the last connection goes, nil if nobody waits
}

func newLinks(limit int) *links {
	l := &links{open: make(map[*linkEntry]struct{})}
	if limit > 0 {
		l.slots = make(chan struct{}, limit)
	}
	return l
}

// reserve waits for room for one more connection; false means that stop ended first.
func (l *links) reserve(stop <-chan struct{}) bool {
	if l.slots == nil {
		return true
	}
	select {
	case l.slots <- struct{}{}:
		return true // even when stopping: what is in the kernel's queue is still to be served
	default:
	}
	select {
	case l.slots <- struct{}{}:
		return true
	case <-stop:
		return false
	}
}

// release gives back a place that was reserved and not used.
func (l *links) release() {
	if l.slots != nil {
		<-l.slots
	}
}

// add enters a connection for which a place was reserved.
func (l *links) add(c net.Conn) link {
	e := &linkEntry{conn: c, links: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[e] = struct{}{}
	return link{Conn: c, entry: e}
}

func (l *links) remove(e *linkEntry) {
	l.release()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, e)
	if len(l.open) == 0 && l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
}

// adopt makes c the connection to close.
func (e *linkEntry) adopt(c net.Conn) {
	e.links.mu.Lock()
	defer e.links.mu.Unlock()
	e.conn = c
}

func (l *links) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// empty returns a channel that is closed once no connection is open.
func (l *links) empty() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) == 0 {
		done := make(chan struct{})
		close(done)
		return done
	}
	if l.idle == nil {
		l.idle = make(chan struct{})
	}
	return l.idle
}

// closeResting closes the connections that rest with a loop. net/http would do the same, but does not know of those that only had hits.
func (l *links) closeResting() {
	for _, nc := range l.all() {
		if c, ok := nc.(*conn); ok {
			c.endRest()
		}
	}
}

// all returns the open connections.
func (l *links) all() []net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	open := make([]net.Conn, 0, len(l.open))
	for e := range l.open {
		open = append(open, e.conn)
	}
	return open
}

// cut closes every connection as it is.
func (l *links) cut() {
	for _, c := range l.cutOthers() {
		c.cut()
	}
}

// cutOthers closes the connections that no loop has adopted, and returns those that one has. Closing is done under mu, which it does not hold for long:
// a connection that is adopted afterwards is found closed, and one that was before has a descriptor that its loop can rely on.
func (l *links) cutOthers() (adopted []*conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e := range l.open {
		if c, ok := e.conn.(*conn); ok {
			adopted = append(adopted, c)
			continue
		}
		_ = e.conn.Close() // whoever serves it sees the error and takes it off the books
	}
	return adopted
}

// tlsHTTP1 is an HTTP/1 connection over TLS. net/http takes the state for Request.TLS from its method.
type tlsHTTP1 struct {
	*conn
	tls *tls.Conn
}

// ConnectionState returns what the handshake agreed on.
func (c tlsHTTP1) ConnectionState() tls.ConnectionState { return c.tls.ConnectionState() }
