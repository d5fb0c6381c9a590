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
// only when a third of its buffer, which may be megabytes, is free. So each time that the write's deadline passes it is looked whether the client
// has taken bytes since the last look. The first look comes early and only remembers: by then the buffers are full that take bytes without
// a client's doing.
type writeWait struct {
	looked bool
	at     time.Time // of the last look
	unsent int       // as the function of that name said at the last look
}

// firstLook is the part of the idle limit after which a wait is first looked at. A client that takes nothing is cut behind it and a whole limit.
const firstLook = 4

// span is how long to wait until the next look.
func (w *writeWait) span(idle time.Duration) time.Duration {
	if w.looked {
		return idle
	}
	return max(idle/firstLook, 1)
}

// fits tells whether a deadline that is left away may stay for a wait that begins: moving one costs more than a small write's own bookkeeping.
func (w *writeWait) fits(left, idle time.Duration) bool {
	span := w.span(idle)
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
	first := !w.looked
	w.looked, w.at, w.unsent = true, time.Now(), left
	return first || moved
}

// resume begins another write's wait. It is the same one if the last look was just before: room that the kernel made then, by growing its buffer, lets
// a write end that nobody takes.
func (w *writeWait) resume(idle time.Duration) {
	if w.looked && time.Since(w.at) > idle/firstLook {
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
	s, ok := c.(syscall.Conn)
	if !ok {
		return n
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return n
	}
	_ = raw.Control(func(fd uintptr) { n = queued(fd) }) // of a closed connection nothing is known
	return n
}

// held remembers that a connection's client let writes wait, for those who wait behind them. Safe for concurrent use.
type held struct{ until atomic.Int64 } // in nanoseconds of Unix time

// heldKey is what a connection's held is known by in its requests' contexts.
type heldKey struct{}

// after notes a wait, if it was one to speak of. It counts for twice the idle limit: by then there is another look, or nothing waits.
func (h *held) after(w *writeWait, idle time.Duration) {
	if w.looked {
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
