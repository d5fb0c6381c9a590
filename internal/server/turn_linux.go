package server

import (
	"context"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// owner is who may touch a connection's reading side, its buffer and its answer. A closed enum.
type owner = int32

const (
	// ownerGo is net/http's goroutine for the connection.
	ownerGo owner = iota
	// ownerStirred is ownerGo after the loop has heard of bytes, which the loop does not hear of again by itself.
	ownerStirred
	// ownerLeft is ownerStirred after the loop has heard that the client is through or gone.
	ownerLeft
	// ownerLoop is a connection that rests. The loop takes it when something comes.
	ownerLoop
	// ownerTurn is the loop at work on it, or waiting for the client to take the rest of an answer.
	ownerTurn
)

// loopSide is what a connection keeps for the loop.
type loopSide struct {
	loop  *loop // nil: it has none
	owner atomic.Int32
	// stalled: the client does not take its answer, out. It ends under conn.mu.
	stalled atomic.Bool
	// closing: it is to be closed behind the present answer.
	closing atomic.Bool
	// serving: a worker has its request. The owner is ownerGo, or one of those that follow from it.
	serving atomic.Bool
	// until is when a rest or a stall has lasted too long, in nanoseconds since the server's epoch.
	until atomic.Int64
	timer *time.Timer
	fires time.Time // when the timer does; guarded by conn.mu

	known    bool // net/http has it
	watching bool // the loop hears of it
	fd       int
	serial   int32         // tells it from others that have had its descriptor
	resume   chan struct{} // ends net/http's wait for the next request
	over     error         // why there will be none, set before resume
	gone     chan struct{} // holds one element after the owner has become ownerLeft

	request []byte             // the head that a worker is to serve
	cancel  context.CancelFunc // ends the request that a worker serves; guarded by conn.mu
	behind  bool               // another request came with it, in the same piece; as cancel
	push    func(fd uintptr)   // raw.push, made once

	// The following are the loop's own.
	readable bool        // there may be something to read
	ended    bool        // the client is through, or gone: the end can be read behind what it sent
	queued   bool        // in loop.again
	out      *hitScratch // an answer that is not whole out yet
	ahead    int64       // the length of its head
}

// looped tells whether the connection rests with a loop.
func (c *conn) looped() bool { return c.loop != nil }

// joinLoop gives a new connection to a loop. False means that there is none.
func (c *conn) joinLoop() bool {
	s := c.server
	if len(s.loops) == 0 || c.raw == nil {
		return false
	}
	nth := s.nextLoop.Add(1)
	c.loop, c.serial = s.loops[nth%uint32(len(s.loops))], int32(nth)
	c.resume, c.gone = make(chan struct{}, 1), make(chan struct{}, 1)
	c.push = func(fd uintptr) { c.raw.push(fd) }
	c.timer = time.AfterFunc(time.Hour, c.overdue)
	c.setUntil(time.Now(), s.o.ReadHeaderTimeout)
	c.setTimer(s.o.ReadHeaderTimeout)
	c.link.entry.adopt(c)
	if c.sit() != nil {
		_ = c.closeNow() // its descriptor is not good for anything else either
		return true
	}
	c.backToLoop()
	c.endIfDue()
	return true
}

// sit gives the connection its seat with the loop.
func (c *conn) sit() error {
	return c.raw.conn.Control(func(fd uintptr) {
		c.fd = int(fd)
		c.loop.seats.take(c.fd, c)
	})
}

// watch makes the loop hear of the connection. What can be read already counts as news.
func (c *conn) watch() error {
	c.watching = true
	return c.control(unix.EPOLL_CTL_ADD)
}

func (c *conn) control(op int) error {
	var err error
	if cerr := c.raw.conn.Control(func(fd uintptr) { err = c.loop.control(op, int(fd), c.serial) }); cerr != nil {
		return cerr
	}
	return err
}

// unwatch is for connections that will read much which is none of the loop's business.
func (c *conn) unwatch() {
	if c.loop == nil || !c.watching {
		return
	}
	c.watching = false
	_ = c.control(unix.EPOLL_CTL_DEL) // a closed one is not watched anyway
}

func (c *conn) setUntil(now time.Time, d time.Duration) {
	c.until.Store(int64(now.Sub(c.server.epoch) + d))
}

// happened is called by the loop when the kernel has news of the connection.
func (c *conn) happened(events uint32) {
	for {
		switch c.owner.Load() {
		case ownerLoop:
			if events&^unix.EPOLLOUT == 0 {
				return // room to write is nothing to wake up for
			}
			if !c.owner.CompareAndSwap(ownerLoop, ownerTurn) {
				continue
			}
			c.note(events)
			c.takeTurn()
		case ownerTurn:
			c.note(events)
			c.takeTurn()
		case ownerGo, ownerStirred:
			if !c.tell(events) {
				continue
			}
		case ownerLeft:
			c.mindGone() // one that was only through may be gone now
		}
		return
	}
}

// tell leaves word for net/http's goroutine. False means that the connection has just changed hands.
func (c *conn) tell(events uint32) bool {
	c.note(events)
	switch {
	case c.ended:
		if !c.owner.CompareAndSwap(ownerGo, ownerLeft) && !c.owner.CompareAndSwap(ownerStirred, ownerLeft) {
			return false
		}
		c.sayGone()
		c.mindGone()
	case c.readable:
		return c.owner.Load() == ownerStirred || c.owner.CompareAndSwap(ownerGo, ownerStirred)
	}
	return true
}

// sayGone lets net/http's wait for the client's end be over, also one that is yet to come.
func (c *conn) sayGone() {
	select {
	case c.gone <- struct{}{}:
	default:
	}
}

func (c *conn) note(events uint32) {
	const end = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
	c.ended = c.ended || events&end != 0
	c.readable = c.readable || c.ended || events&unix.EPOLLIN != 0
}

// turnEnd is how a turn ended. A closed enum.
type turnEnd uint8

const (
	// turnWaits: the client does not take its answer yet.
	turnWaits turnEnd = iota
	// turnPauses: there is more to do, after the others.
	turnPauses
	// turnRests: everything that came is answered.
	turnRests
	// turnDirect: the next request is for the handler.
	turnDirect
	// turnOrdinary: what comes next is for net/http.
	turnOrdinary
	// turnOver: the client is through.
	turnOver
	// turnBroken: the answer could not be written.
	turnBroken
)

// takeTurn lets the loop work on a connection that it owns: nobody else closes one of those, so that its descriptor is good until the turn ends.
func (c *conn) takeTurn() {
	defer c.contain()
	c.queued = false
	switch c.workTurn(uintptr(c.fd)) {
	case turnWaits:
		c.keep()
	case turnPauses:
		c.keep()
		c.queued = true
		c.loop.again = append(c.loop.again, c)
	case turnRests:
		c.rest()
	case turnDirect:
		c.handOut()
	case turnOrdinary:
		c.handOver()
	case turnOver:
		c.endRequests()
	case turnBroken:
		c.abandon()
	}
}

// contain ends a connection whose source of hits has panicked. The loop goes on: others are on it.
func (c *conn) contain() {
	fault := recover()
	if fault == nil {
		return
	}
	c.reportFault(fault)
	c.unstall()
	c.out = nil
	c.raw.end()
	c.loop.scratch = newHitScratch() // the other is in an unknown state
	c.restBuffer()
	_ = c.closeNow()
}

// workTurn goes on with the present answer, and answers what there is to answer.
func (c *conn) workTurn(fd uintptr) turnEnd {
	for range turnHits {
		if c.out != nil {
			if end := c.proceed(fd); c.out != nil {
				return end
			}
		}
		had := c.w - c.r
		if had == 0 || (c.readable && !c.holdsHead()) {
			if end := c.readTurn(fd); c.w == had {
				if had == 0 {
					return end
				}
				return turnOrdinary // a head that is not complete, or longer than the buffer
			}
		}
		if end := c.answer(); end != turnRests {
			return end
		}
	}
	return turnPauses
}

// holdsHead tells whether there is a whole head in the buffer, or something that is none.
func (c *conn) holdsHead() bool {
	end, refused := c.findHead()
	return end > 0 || refused != refusalNone
}

// readTurn reads into the loop's buffer, behind a part of a head. If nothing came, the result says what that means.
func (c *conn) readTurn(fd uintptr) turnEnd {
	if c.buf == nil {
		c.buf = c.loop.buf
	}
	c.w = copy(c.buf, c.buf[c.r:c.w])
	c.r = 0
	room := c.buf[c.w:]
	if !c.readable || len(room) == 0 {
		return turnRests
	}
	n, errno := tryRead(fd, room)
	switch {
	case errno == syscall.EAGAIN:
		c.readable = false
		return turnRests
	case errno != 0, n == 0:
		return turnOver
	}
	c.w += n
	// A short read has emptied the socket, so that what comes is news; the end may have come with the data.
	c.readable = n == len(room) || c.ended
	return turnRests
}

// answer begins the answer to the next head in the buffer. If it cannot, the result says who can.
func (c *conn) answer() turnEnd {
	sc := c.loop.scratch
	end := c.parseHead(sc)
	if c.r == c.w {
		c.scanned = 0
		return turnRests // nothing but empty lines
	}
	if end == 0 {
		return turnOrdinary
	}
	sc.req.At, sc.req.Remote = c.loop.now, c.hits.remote
	sc.answer.Head = sc.answer.Head[:0]
	if c.server.draining.Load() || !c.hits.source.Hit(&sc.req, &sc.answer) {
		if !sc.isDirect() {
			return turnOrdinary
		}
		c.beginDirect(end)
		return turnDirect
	}
	c.passHead(end)
	c.send(sc)
	return turnRests
}

// parseHead reads the head at the start of the buffer and returns its length, 0 if it is not whole or not for the loop. Nearly all heads come
// whole and plain, and those need not be searched for their end before.
func (c *conn) parseHead(sc *hitScratch) int {
	if c.scanned+c.skipped == 0 {
		if end := sc.parse(c.buffered()); end > 0 && end <= c.server.o.MaxHeaderBytes {
			return end
		}
	}
	end, refused := c.findHead()
	if refused != refusalNone || end == 0 || sc.parse(c.buffered()[:end]) != end {
		return 0
	}
	return end
}

// send prepares an answer for writing: the body without copying unless it is small.
func (c *conn) send(sc *hitScratch) {
	nth := c.server.stats.hits.Add(1)
	a := &sc.answer
	body := a.Body
	c.out, c.ahead = sc, int64(len(a.Head))
	if len(body) <= smallBody {
		a.Head = append(a.Head, body...) // keeps what it may have grown to
		body = nil
	}
	c.raw.begin(a.Head, body, c.server.twins.get(body, uint64(nth)))
}

// proceed writes what it can. If the answer is not out then, the result says how the turn ends.
func (c *conn) proceed(fd uintptr) turnEnd {
	before := c.raw.sent
	switch c.raw.push(fd) {
	case pushDone:
		c.finish(true)
	case pushFull:
		c.stall(int(c.raw.sent - before))
	case pushMore:
		c.unstall()
		return turnPauses
	case pushFailed:
		return turnBroken
	}
	return turnWaits
}

// stall waits for the client to take more of the answer, of which wrote bytes went to the kernel just now. News of room comes from the kernel.
func (c *conn) stall(wrote int) {
	idle := c.server.o.WriteIdle
	if idle == 0 || c.stalled.Load() && wrote == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stalled.Load() {
		c.out.wait.sent(wrote)
		return
	}
	c.out.wait = writeWait{}
	c.lookLaterLocked(c.loop.now)
}

// lookLaterLocked sets the time for the next look at a stall.
func (c *conn) lookLaterLocked(now time.Time) {
	every := lookEvery(c.server.o.WriteIdle)
	c.setUntil(now, every)
	c.stalled.Store(true)
	if c.fires.Sub(now) > every {
		c.setTimerLocked(every)
	}
}

func (c *conn) unstall() {
	if !c.stalled.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stalled.Store(false)
}

// look ends a stall in which the client takes nothing.
func (c *conn) look() {
	_ = c.raw.conn.Control(func(fd uintptr) { // a closed connection has no stall
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.stalled.Load() || c.timeLeft() > 0 {
			return // it is another one's
		}
		if c.out.wait.look(0, queued(fd)) {
			c.lookLaterLocked(time.Now())
			return
		}
		_ = unix.Shutdown(int(fd), unix.SHUT_RDWR) // the loop sees it as an error of the answer's next write
	})
}

func (c *conn) setTimerLocked(d time.Duration) {
	c.fires = time.Now().Add(d)
	c.timer.Reset(d)
}

// finish reports an answer.
func (c *conn) finish(whole bool) {
	c.unstall()
	sc := c.out
	c.out = nil
	c.raw.end()
	c.hits.source.HitSent(&sc.answer, max(c.raw.sent-c.ahead, 0), whole)
	if sc != c.loop.scratch {
		hitScratches.Put(sc)
	}
}

// abandon gives up an answer and the connection.
func (c *conn) abandon() {
	if c.out != nil {
		c.finish(false)
	}
	_ = c.closeNow()
}

// keep takes what the loop has lent away from it, because the connection needs it beyond its turn.
func (c *conn) keep() {
	l := c.loop
	if c.out == l.scratch {
		l.scratch = newHitScratch()
	}
	if c.lent() {
		l.buf = newBuffer()
	}
}

// lent tells whether the connection reads into the loop's buffer.
func (c *conn) lent() bool {
	return c.buf != nil && unsafe.SliceData(c.buf) == unsafe.SliceData(c.loop.buf)
}

// rest waits for the next request.
func (c *conn) rest() {
	c.restBuffer()
	c.setUntil(c.loop.now, c.server.o.IdleTimeout)
	c.owner.Store(ownerLoop)
	c.endIfDue()
}

// restBuffer gives an empty buffer back. Called by the loop.
func (c *conn) restBuffer() {
	if c.lent() {
		c.buf, c.r, c.w = nil, 0, 0
		return
	}
	c.dropBuffer()
}

// endIfDue closes a resting connection of which somebody said so while it was busy.
func (c *conn) endIfDue() {
	if c.closing.Load() || c.server.restless.Load() {
		c.endRest()
	}
}

// endRest closes the connection if it rests.
func (c *conn) endRest() {
	if c.owner.CompareAndSwap(ownerLoop, ownerGo) {
		_ = c.closeNow()
	}
}

// handOver makes net/http's goroutine the owner, of all that was read, too.
func (c *conn) handOver() {
	c.keep()
	if c.ended {
		c.sayGone()
	}
	c.owner.Store(c.ownerFor())
	c.give()
}

// ownerFor is what the owner becomes when the loop gives the connection away.
func (c *conn) ownerFor() owner {
	switch {
	case c.ended:
		return ownerLeft
	case c.readable:
		return ownerStirred
	default:
		return ownerGo
	}
}

// give lets net/http's goroutine go on with what is in the buffer.
func (c *conn) give() {
	known := c.known
	c.known = true
	switch {
	case c.closing.Load():
		_ = c.closeNow()
	case known:
		c.resume <- struct{}{} // cannot block: there is one for each wait
	default:
		c.introduce()
	}
}

// introduce gives net/http a connection that it has not seen yet.
func (c *conn) introduce() {
	select {
	case c.server.queue.conns <- c:
	default:
		go c.server.offer(c)
	}
}

// endRequests is for a connection on which nothing more will come.
func (c *conn) endRequests() {
	c.restBuffer()
	c.owner.Store(ownerGo)
	c.dismiss(io.EOF)
}

// dismiss closes a connection of which nothing more is expected. If net/http knows it, that closes it.
func (c *conn) dismiss(why error) {
	if !c.known || c.closing.Load() {
		_ = c.closeNow()
		return
	}
	c.over = why
	c.resume <- struct{}{} // as in give
}

// leaveLoop ends the connection when its loop has ended.
func (c *conn) leaveLoop() {
	defer c.contain()
	if c.owner.Load() == ownerTurn {
		c.abandon()
		return
	}
	_ = c.closeNow()
}

// overdue is called by the timer: it ends what has lasted too long, and sets the timer to when that may next be.
func (c *conn) overdue() {
	select {
	case <-c.closed:
		return
	default:
	}
	left := c.timeLeft()
	switch {
	case left > 0:
	case c.stalled.Load():
		c.look()
		if left = c.timeLeft(); left <= 0 && c.stalled.Load() {
			return
		}
	case c.owner.CompareAndSwap(ownerLoop, ownerGo):
		if left = c.timeLeft(); left <= 0 {
			c.dismiss(os.ErrDeadlineExceeded)
			return
		}
		c.backToLoop() // it had a turn just now
		c.endIfDue()
	default:
		left = c.server.o.IdleTimeout
	}
	c.setTimer(left)
}

// setTimer sets the timer to d from now, or to the end of a stall if that is nearer.
func (c *conn) setTimer(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stalled.Load() {
		d = min(d, max(c.timeLeft(), 0))
	}
	c.setTimerLocked(d)
}

// timeLeft is how long the present wait may last.
func (c *conn) timeLeft() time.Duration {
	return time.Duration(c.until.Load()) - time.Since(c.server.epoch)
}

// backToLoop makes the connection rest. What the loop has heard of meanwhile is news to it again.
func (c *conn) backToLoop() {
	if !c.watching && c.watch() != nil {
		_ = c.closeNow()
		return
	}
	if c.owner.CompareAndSwap(ownerGo, ownerLoop) {
		return
	}
	c.owner.Store(ownerLoop)
	// From here on it may be another's again. News of what is no news disturb nobody, and a connection that is not watched any more has
	// an owner who reads.
	_ = c.control(unix.EPOLL_CTL_MOD)
}

// await is net/http's wait for the next request: the connection rests with the loop, until there is one that the loop cannot answer.
func (c *conn) await() error {
	for c.w == c.r {
		c.dropBuffer()
		c.setUntil(time.Now(), c.server.o.IdleTimeout)
		c.backToLoop()
		c.endIfDue()
		select {
		case <-c.resume:
		case <-c.closed:
			return net.ErrClosed
		}
		if c.over != nil {
			return c.over
		}
	}
	return nil
}

// holdWatched is hold with a loop: nothing needs to be read before the loop has heard of the client's end.
func (c *conn) holdWatched() error {
	if !c.watching { // behind a body
		if err := c.watch(); err != nil {
			return err
		}
	}
	select {
	case <-c.gone:
		return c.readEnd()
	case <-c.wake:
		return os.ErrDeadlineExceeded
	case <-c.closed:
		return net.ErrClosed
	}
}

// readEnd reads what a client that is through has sent before.
func (c *conn) readEnd() error {
	c.makeRoom(bufferSize)
	var n int
	var errno syscall.Errno
	if err := c.raw.conn.Control(func(fd uintptr) { n, errno = tryRead(fd, c.buf[c.w:]) }); err != nil {
		return err
	}
	switch {
	case errno == syscall.EAGAIN:
		return nil
	case errno != 0:
		return &net.OpError{Op: "read", Net: "tcp", Err: errno}
	case n == 0:
		return io.EOF
	}
	c.w += n
	c.sayGone() // the end is behind it
	return nil
}

// Close closes the connection. If an answer from memory is being written, the connection closes behind it.
func (c *conn) Close() error {
	for c.loop != nil {
		switch c.owner.Load() {
		case ownerTurn:
			c.closing.Store(true)
			if c.owner.Load() == ownerTurn {
				return nil // the loop looks at closing after it has given up its turn
			}
		case ownerLoop:
			if c.owner.CompareAndSwap(ownerLoop, ownerGo) {
				return c.closeNow()
			}
		default:
			if !c.serving.Load() {
				return c.closeNow()
			}
			c.closing.Store(true)
			if c.serving.Load() {
				return nil // the worker looks at closing, too
			}
		}
	}
	return c.closeNow()
}

// cut closes the connection as it is. An answer that its loop is writing ends with the loop.
func (c *conn) cut() {
	if _ = c.Close(); c.loop != nil && c.serving.Load() {
		_ = c.closeNow()
	}
}

// quitLoop is the loop's part of closing.
func (c *conn) quitLoop() {
	if c.loop != nil {
		c.loop.seats.leave(c.fd, c)
		c.timer.Stop()
		c.cancelRequest() // the loop does not hear of this
	}
}
