package server

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// writeWait is one write's wait for a client that does not take all of it at once. That a write does not move says little: the kernel reports room
// only when a third of its buffer, which may be megabytes, is free. So it is looked several times within the idle limit whether the client has taken
// bytes. The first look only remembers: by then the buffers are full that take bytes without a client's doing. A client that takes nothing is cut
// at the looks-th after it. That it takes several has a reason beside: while this process, or the machine, stands still no client can take anything,
// and however long that lasts, it is one look.
type writeWait struct {
	quiet  int       // looks at which nothing had moved, with the first; 0: not looked yet
	at     time.Time // of the last look
	unsent int       // as the function of that name said at the last look
}

// looks is how often a wait is looked at within the idle limit.
const looks = 4

// lookEvery is how long to wait until the next look.
func lookEvery(idle time.Duration) time.Duration { return max(idle/looks, 1) }

// fits tells whether a deadline that is left away may stay for a wait that begins: moving one costs more than a small write's own bookkeeping.
func fits(left, idle time.Duration) bool {
	span := lookEvery(idle)
	return left <= span && left >= span-span/4
}

// goOn tells whether to wait on after an attempt that moved wrote bytes to the kernel and ended with err.
func (w *writeWait) goOn(c net.Conn, wrote int64, err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) && w.look(wrote, unsent(c))
}

// look compares with the last look. That the kernel has taken some of the write counts only if no more is known: its buffer may have grown.
func (w *writeWait) look(wrote int64, left int) bool {
	moved := wrote > 0
	if left >= 0 && w.unsent >= 0 {
		moved = int64(left) < int64(w.unsent)+wrote
	}
	if moved {
		w.quiet = 0
	}
	w.quiet, w.at, w.unsent = w.quiet+1, time.Now(), left
	return w.quiet <= looks
}

// looked tells whether the wait was one to speak of.
func (w *writeWait) looked() bool { return w.quiet > 0 }

// resume begins another write's wait. It is the same one if the last look was just before: room that the kernel made then, by growing its buffer, lets
// a write end that nobody takes.
func (w *writeWait) resume(idle time.Duration) {
	if w.looked() && time.Since(w.at) > lookEvery(idle) {
		*w = writeWait{}
	}
}

// sent counts what was written since the last look.
func (w *writeWait) sent(n int) {
	if w.unsent >= 0 {
		w.unsent += n
	}
}

// unsent is how many bytes of what was written to a connection its peer has not acknowledged, -1 if that is not known.
func unsent(c net.Conn) int {
	n := -1
	withDescriptor(c, func(fd uintptr) { n = queued(fd) })
	return n
}

// withDescriptor calls f with the descriptor of a socket, if it has one that is open.
func withDescriptor(socket any, f func(fd uintptr)) {
	s, ok := socket.(syscall.Conn)
	if !ok {
		return
	}
	if raw, err := s.SyscallConn(); err == nil {
		_ = raw.Control(f)
	}
}

// held remembers that a connection's client let writes wait, for those who wait behind them. Safe for concurrent use.
type held struct{ until atomic.Int64 } // in nanoseconds of Unix time

// heldKey is what a connection's held is known by in its requests' contexts.
type heldKey struct{}

// after notes a wait, if it was one to speak of. It counts for twice the idle limit: by then there is another look, or nothing waits.
func (h *held) after(w *writeWait, idle time.Duration) {
	if w.looked() {
		h.until.Store(time.Now().Add(2 * idle).UnixNano())
	}
}

// still tells whether a write waits, or did a short time ago.
func (h *held) still() bool { return time.Now().UnixNano() < h.until.Load() }

// nearer is the earlier of two deadlines, of which the second may be none.
func nearer(a, b time.Time) time.Time {
	if !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
