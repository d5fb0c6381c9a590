package origin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"
)

// plain exchanges requests without a body over plain HTTP/1.1, all on the caller's goroutine: nearly everything that a cache fetches.
// net/http's Transport hands each request to one goroutine and its response to another, which costs more than the rest of an
// exchange; the parsing of responses is net/http's all the same. Everything else goes through the Transport: bodies, upgrades, TLS,
// HTTP/2, bounded connections, and requests that need its care.
//
// Safe for concurrent use.
type plain struct {
	t      *target
	heads  sync.Pool // of *[]byte: request heads
	poller poller

	mu      sync.Mutex   // guards following
	idle    []*plainConn // the longest unused first
	renewed int          // connections of an earlier number are not kept
	closed  bool
	timer   *time.Timer // closes what is unused for too long; nil before the first
}

// plainUse says which exchanges go through plain. Tests run every case both ways. A closed enum.
type plainUse uint8

const (
	// plainByDefault: where it is possible, unless a custom Dial gives connections of unknown kind.
	plainByDefault plainUse = iota
	plainAlways
	plainNever
)

// newPlain returns nil for a target that plain can not serve.
func newPlain(t *target, scheme string) *plain {
	possible := scheme == "http" && t.cfg.Pool.MaxConns == 0
	wanted := t.cfg.plain == plainAlways || t.cfg.plain == plainByDefault && t.cfg.Dial == nil && canSwap
	if !possible || !wanted {
		return nil
	}
	return &plain{t: t, poller: poller{cpu: processTime}}
}

// takes reports whether plain may make this exchange.
func (p *plain) takes(o *outbound) bool {
	//lint:ignore SA1019 net/http still heeds it
	if p == nil || o.body != nil || o.upgrade != "" || o.in.Cancel != nil {
		return false
	}
	switch o.in.Method {
	case "", http.MethodGet, http.MethodHead:
		return onlyInformational(httptrace.ContextClientTrace(o.ctx))
	}
	return false
}

// onlyInformational reports whether a trace asks for nothing but 1xx responses, which plain reports.
func onlyInformational(t *httptrace.ClientTrace) bool {
	return t == nil || t.GetConn == nil && t.GotConn == nil && t.PutIdleConn == nil && t.GotFirstResponseByte == nil && t.Got100Continue == nil &&
		t.DNSStart == nil && t.DNSDone == nil && t.ConnectStart == nil && t.ConnectDone == nil && t.TLSHandshakeStart == nil &&
		t.TLSHandshakeDone == nil && t.WroteHeaderField == nil && t.WroteHeaders == nil && t.Wait100Continue == nil && t.WroteRequest == nil
}

// errNotPlain is returned by roundTrip for a request that net/http has to judge. Nothing was sent.
var errNotPlain = errors.New("request needs net/http")

// roundTrip makes the exchange. A kept connection that the origin closed before it said anything is replaced by a new one, once: the request
// is safe and has no body (RFC 9110 §9.2.2).
func (p *plain) roundTrip(o *outbound) (*http.Response, error) {
	buf := p.head()
	defer p.heads.Put(buf)
	head, ok := o.appendHead((*buf)[:0], p.t)
	*buf = head
	if !ok {
		return nil, errNotPlain
	}
	if c := p.pop(); c != nil {
		resp, err := c.exchange(o, head)
		if err == nil || !c.closedUnheard(err) || o.ctx.Err() != nil {
			return resp, err
		}
	}
	c, err := p.dial(o.ctx)
	if err != nil {
		return nil, err
	}
	return c.exchange(o, head)
}

// head returns a buffer for a request's head, which the caller puts back into heads.
func (p *plain) head() *[]byte {
	if buf, ok := p.heads.Get().(*[]byte); ok {
		return buf
	}
	return new([]byte)
}

// dial opens a connection.
func (p *plain) dial(ctx context.Context) (*plainConn, error) {
	p.mu.Lock()
	renewed := p.renewed
	p.mu.Unlock()
	c, err := p.t.dialer.tcp(ctx, "tcp", p.t.dialAddr)
	if err != nil {
		return nil, err
	}
	return newPlainConn(p, c, renewed), nil
}

// pop returns the connection that was used last, nil if there is none. The others may come to be unneeded.
func (p *plain) pop() *plainConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return nil
	}
	last := len(p.idle) - 1
	c := p.idle[last]
	p.idle[last] = nil
	p.idle = p.idle[:last]
	return c
}

// put keeps a connection, or closes it.
func (p *plain) put(c *plainConn) {
	if !p.kept(c) {
		c.conn.Close()
	}
}

func (p *plain) kept(c *plainConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || c.renewed != p.renewed || len(p.idle) >= p.t.cfg.Pool.MaxIdle {
		return false
	}
	c.idleSince = time.Now()
	p.idle = append(p.idle, c)
	if limit := p.t.cfg.Pool.IdleTimeout; limit > 0 && len(p.idle) == 1 {
		p.armLocked(limit)
	}
	return true
}

func (p *plain) armLocked(d time.Duration) {
	if p.timer == nil {
		p.timer = time.AfterFunc(d, p.prune)
		return
	}
	p.timer.Reset(d)
}

// prune closes what has been unused for too long.
func (p *plain) prune() {
	limit := p.t.cfg.Pool.IdleTimeout
	p.mu.Lock()
	now, n := time.Now(), 0
	for n < len(p.idle) && now.Sub(p.idle[n].idleSince) >= limit {
		n++
	}
	old := append([]*plainConn(nil), p.idle[:n]...)
	p.idle = append(p.idle[:0], p.idle[n:]...)
	if len(p.idle) > 0 {
		p.armLocked(limit - now.Sub(p.idle[0].idleSince))
	}
	p.mu.Unlock()
	closeConns(old)
}

// renew closes the unused connections, and the others when they come back. p may be nil.
func (p *plain) renew() { p.empty(false) }

// shut is renew for good.
func (p *plain) shut() { p.empty(true) }

func (p *plain) empty(forGood bool) {
	if p == nil {
		return
	}
	p.mu.Lock()
	old := p.idle
	p.idle = nil
	p.renewed++
	p.closed = p.closed || forGood
	if p.timer != nil {
		p.timer.Stop()
	}
	p.mu.Unlock()
	closeConns(old)
}

func closeConns(conns []*plainConn) {
	for _, c := range conns {
		c.conn.Close()
	}
}

var _ io.ReadCloser = (*plainBody)(nil)
