package server

import (
	"bytes"
	"context"
	"net/http"
	"net/textproto"
	"net/url"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A request that the loop can read but not answer from memory is answered by the handler on a worker's goroutine, without net/http: there is nothing
// about such a request that net/http would have to find out. It costs half of what net/http does around a handler, and nobody has to read from the
// connection meanwhile to notice that the client has gone: the loop hears of it.

// maxResting is how many workers wait for work. Their stacks are warm.
const maxResting = 64

// employ finds a worker for a connection's request.
func (s *Server) employ(c *conn) {
	select {
	case s.jobs <- c:
	default:
		go s.work(c)
	}
}

// work serves a request, and then others that come up.
func (s *Server) work(c *conn) {
	for ; c != nil; c = s.nextJob() {
		c.serveDirect()
	}
}

// nextJob waits for work. Nil means that there are workers enough.
func (s *Server) nextJob() *conn {
	defer s.resting.Add(-1)
	if s.resting.Add(1) > maxResting {
		return nil
	}
	select {
	case c := <-s.jobs:
		return c
	case <-s.life.Done():
		return nil
	}
}

// beginDirect ends the turn of a connection with a request for the handler: the head of end bytes at the start of the buffer.
func (c *conn) beginDirect(end int) {
	c.request = bytes.Clone(c.buf[c.r : c.r+end])
	c.passHead(end)
}

// passHead goes on behind a head of end bytes.
func (c *conn) passHead(end int) {
	c.r += end
	c.scanned, c.skipped = 0, 0
}

// handOut gives the request to a worker.
func (c *conn) handOut() {
	if c.w == c.r {
		c.restBuffer()
	} else {
		c.keep()
	}
	c.serving.Store(true)
	c.owner.Store(c.ownerFor())
	if c.closing.Load() {
		c.serving.Store(false)
		_ = c.closeNow()
		return
	}
	c.server.employ(c)
}

// serveDirect runs the handler and sends its response.
func (c *conn) serveDirect() {
	s := c.server
	ctx, cancel := context.WithCancel(s.requests)
	c.minded(cancel)
	r := c.directRequest(ctx)
	w := newResponse(c, r.Method)
	whole := c.handle(w, r)
	c.minded(nil)
	cancel()
	if whole {
		w.finish()
	}
	again := whole && w.reusable()
	w.release()
	_ = c.SetWriteDeadline(time.Time{}) // a handler's own is for its answer; a closed connection needs none
	c.serving.Store(false)
	if !again {
		_ = c.closeNow()
		return
	}
	c.endDirect()
}

// handle calls the handler. False means that it gave up: the answer is not whole, and the client shall see that.
func (c *conn) handle(w *response, r *http.Request) (whole bool) {
	defer func() {
		if fault := recover(); fault != nil && fault != http.ErrAbortHandler {
			c.reportFault(fault)
		}
	}()
	c.server.serveHTTP(w, r)
	return true
}

// reportFault logs a panic as net/http does.
func (c *conn) reportFault(fault any) {
	stack := make([]byte, 64<<10)
	stack = stack[:runtime.Stack(stack, false)]
	c.server.http.ErrorLog.Printf("http: panic serving %v: %v\n%s", c.hits.remote, fault, stack)
}

// endDirect lets the connection rest, or gives it to net/http if more has come behind the request.
func (c *conn) endDirect() {
	if c.w > c.r {
		c.give()
		return
	}
	c.dropBuffer()
	c.setUntil(time.Now(), c.server.o.IdleTimeout)
	c.backToLoop()
	c.endIfDue()
}

// minded makes cancel what happens when the client goes, or the connection is closed.
func (c *conn) minded(cancel context.CancelFunc) {
	c.mu.Lock()
	c.cancel, c.behind = cancel, c.w > c.r
	c.mu.Unlock()
	if cancel == nil {
		return
	}
	if c.owner.Load() == ownerLeft {
		c.mindGone()
	}
	select {
	case <-c.closed:
		cancel()
	default:
	}
}

// cancelRequest ends the context of the request that a worker serves.
func (c *conn) cancelRequest() {
	c.mu.Lock()
	cancel := c.cancel
	c.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// mindGone cancels the request of a client that has gone. One that has sent more before it ended its side has not.
func (c *conn) mindGone() {
	c.mu.Lock()
	cancel, behind := c.cancel, c.behind
	c.mu.Unlock()
	if cancel == nil {
		return
	}
	var n uintptr
	var errno syscall.Errno
	_ = c.raw.conn.Control(func(fd uintptr) { // a closed one has nothing to read either
		var one [1]byte
		n, _, errno = syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&one[0])), 1, unix.MSG_PEEK|unix.MSG_DONTWAIT, 0, 0)
	})
	if (errno == 0 && n == 0 && !behind) || (errno != 0 && errno != syscall.EAGAIN) {
		cancel()
	}
}

// directRequest makes the request as net/http would.
func (c *conn) directRequest(ctx context.Context) *http.Request {
	sc := newHitScratch()
	defer hitScratches.Put(sc)
	sc.parse(c.request) // has been parsed before
	q := &sc.req
	r := new(http.Request).WithContext(ctx)
	r.Method, r.RequestURI, r.Host, r.RemoteAddr = q.Method, view(q.Target), view(q.Host), c.hits.remote
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	r.Body = http.NoBody
	r.URL, _ = url.ParseRequestURI(r.RequestURI) // cannot fail: octets that stand for themselves, behind a slash
	r.Header = make(http.Header, len(q.Fields)+1)
	values := make([]string, len(q.Fields))
	for i := range q.Fields {
		name, value := textproto.CanonicalMIMEHeaderKey(view(q.Fields[i].Name)), view(q.Fields[i].Value)
		if have, ok := r.Header[name]; ok {
			r.Header[name] = append(have, value)
			continue
		}
		values[i] = value
		r.Header[name] = values[i : i+1 : i+1]
	}
	c.request = nil
	return r
}

// view makes a string of bytes that do not change any more.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// isDirect tells whether a parsed request may go to the handler without net/http. Pragma makes net/http derive another field.
func (sc *hitScratch) isDirect() bool {
	for i := range sc.req.Fields {
		if name := sc.req.Fields[i].Name; len(name) == len("pragma") && is(name, "pragma") {
			return false
		}
	}
	return true
}

// writeSome writes what the socket takes of a and b, as one, and returns how much that was. What did not go out now meets the error, or the wait, again.
func (c *conn) writeSome(a, b []byte) (sent int64) {
	c.raw.begin(a, b, nil)
	_ = c.raw.conn.Control(c.push)
	sent = c.raw.sent
	c.raw.end()
	return sent
}

// writeBoth writes a and b as one, and returns how much of b went out.
func (c *conn) writeBoth(a, b []byte) (int, error) {
	sent := int(c.writeSome(a, b))
	if sent < len(a) {
		if _, err := c.Write(a[sent:]); err != nil {
			return 0, err
		}
		sent = len(a)
	}
	n := sent - len(a)
	if n == len(b) {
		return n, nil
	}
	m, err := c.Write(b[n:])
	return n + m, err
}
