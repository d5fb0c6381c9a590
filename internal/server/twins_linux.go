package server

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// twins are copies of large bodies in memory files. From one the kernel sends the pages themselves, which takes half the time of
// copying a megabyte to the socket. Only bodies that are asked for often get one, within a budget. Safe for concurrent use.
type twins struct {
	budget int64

	mu    sync.RWMutex // guards following
	byPtr map[*byte]*twin
	bytes int64
	off   bool // the system has refused to make one: no further attempts
}

// twin is one copy. It holds the body, so that no other one can have its address while the twin is found by it.
type twin struct {
	body []byte
	fd   int
	refs atomic.Int32  // users, and one for being found
	used atomic.Uint32 // counts hits, halved when room is looked for
}

const (
	// twinMin is the smallest body that gets one: 100 KiB cost 17 µs instead of 29; with smaller ones the gain melts and files run out.
	twinMin = 64 << 10
	// twinFiles bounds open files, which connections need too.
	twinFiles = 256
	// twinOneIn is how many hits pass for one that makes a twin, so that what is asked for once is not copied.
	twinOneIn = 8
	// twinLooks is how many twins are looked at for one that nobody uses any more.
	twinLooks = 4
)

func newTwins(budget int64) *twins {
	return &twins{budget: budget, byPtr: make(map[*byte]*twin)}
}

// get returns the twin of a body, nil if there is none. The caller gives it back with release.
func (t *twins) get(body []byte, nth uint64) *twin {
	if len(body) < twinMin || int64(len(body)) > t.budget/4 {
		return nil
	}
	key := unsafe.SliceData(body)
	t.mu.RLock()
	w, off := t.byPtr[key], t.off
	if w != nil && len(w.body) == len(body) {
		w.refs.Add(1)
		w.used.Add(1)
		t.mu.RUnlock()
		return w
	}
	t.mu.RUnlock()
	if w == nil && !off && nth%twinOneIn == 0 {
		t.make(body)
	}
	return nil // the next one finds it
}

// make copies a body, if there is room.
func (t *twins) make(body []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := unsafe.SliceData(body)
	if t.byPtr[key] != nil || t.off || !t.roomLocked(int64(len(body))) {
		return
	}
	fd, err := memoryFile(body)
	if err != nil {
		t.off = true
		return
	}
	w := &twin{body: body, fd: fd}
	w.refs.Store(1)
	w.used.Store(1)
	t.byPtr[key] = w
	t.bytes += int64(len(body))
}

func memoryFile(body []byte) (int, error) {
	fd, err := unix.MemfdCreate("swrproxy-body", unix.MFD_CLOEXEC)
	if err != nil {
		return -1, err
	}
	for len(body) > 0 {
		n, err := unix.Write(fd, body)
		if err != nil {
			_ = unix.Close(fd) // the error at hand says more
			return -1, err
		}
		body = body[n:]
	}
	return fd, nil
}

// roomLocked drops a few twins that nobody asks for, and tells whether there is room then. What is in use stays.
func (t *twins) roomLocked(size int64) bool {
	looks := twinLooks
	for key, w := range t.byPtr {
		if t.fitsLocked(size) || looks == 0 {
			break
		}
		looks--
		if used := w.used.Load(); used > 0 {
			w.used.Store(used / 2)
			continue
		}
		delete(t.byPtr, key)
		t.bytes -= int64(len(w.body))
		w.release()
	}
	return t.fitsLocked(size)
}

func (t *twins) fitsLocked(size int64) bool {
	return t.bytes+size <= t.budget && len(t.byPtr) < twinFiles
}

// release gives a twin back; its file closes behind the last user.
func (w *twin) release() {
	if w != nil && w.refs.Add(-1) == 0 {
		_ = unix.Close(w.fd) // nothing was written that could be lost
	}
}

// close drops all twins.
func (t *twins) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.off = true
	for key, w := range t.byPtr {
		delete(t.byPtr, key)
		w.release()
	}
	t.bytes = 0
}
