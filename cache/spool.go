package cache

import (
	"context"
	"io"
	"sync"
)

const (
	// minSpool is the first buffer for a body of unknown length.
	minSpool = 4 << 10
	// maxEager is how much is allocated at once on the word of a Content-Length.
	maxEager = 1 << 20
	// throughWindow is how far a body that is not kept may run ahead of its slowest reader.
	throughWindow = 1 << 20
)

// spool is a body while it arrives: one writer, any number of readers, each at its own offset. Until it grows over its limit it keeps
// every byte and never waits for a reader, so that a slow client stalls neither the fill nor other readers. Over the limit it
// turns into a window: it drops what all readers have read and waits for the slowest.
//
// Bytes once written are never changed or moved under a reader: growing allocates a new array. Safe for concurrent use.
type spool struct {
	limit int64

	mu      sync.Mutex // guards following
	buf     []byte     // the bytes from base on
	base    int64      // offset of buf[0]; above 0 only in a window
	through bool       // the body is over its limit and not kept
	done    bool
	err     error
	wake    chan struct{} // closed when something changed; nil when nobody waits
	readers map[*spoolReader]struct{}
}

func newSpool(limit, expect int64) *spool {
	s := &spool{limit: limit, readers: make(map[*spoolReader]struct{})}
	if expect > 0 && expect <= limit {
		s.buf = make([]byte, 0, min(expect, maxEager))
	}
	return s
}

// room returns free space behind the bytes written. Only the writer calls it; it writes there and then calls advance.
func (s *spool) room() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.buf) == cap(s.buf) {
		s.growLocked()
	}
	return s.buf[len(s.buf):cap(s.buf)]
}

func (s *spool) growLocked() {
	keep := s.buf
	if s.through {
		low := s.lowestLocked()
		keep = s.buf[low-s.base:]
		s.base = low
	}
	grown := make([]byte, len(keep), max(minSpool, 2*len(keep)))
	copy(grown, keep)
	s.buf = grown
}

// lowestLocked is the offset of the slowest reader, or the end if there is none.
func (s *spool) lowestLocked() int64 {
	low := s.base + int64(len(s.buf))
	for r := range s.readers {
		low = min(low, r.off)
	}
	return low
}

// advance publishes n bytes that were written into room. It tells whether the body just went over its limit.
func (s *spool) advance(n int) (over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf = s.buf[:len(s.buf)+n]
	if !s.through && int64(len(s.buf)) > s.limit {
		s.through, over = true, true
	}
	s.wakeLocked()
	return over
}

// throttle blocks, in a window, until the slowest reader is near enough or nobody reads any more (false) or ctx ends (false).
func (s *spool) throttle(ctx context.Context) bool {
	for {
		s.mu.Lock()
		if !s.through {
			s.mu.Unlock()
			return true
		}
		if len(s.readers) == 0 {
			s.mu.Unlock()
			return false
		}
		if s.base+int64(len(s.buf))-s.lowestLocked() <= throughWindow {
			s.mu.Unlock()
			return true
		}
		wake := s.wakeChanLocked()
		s.mu.Unlock()
		select {
		case <-wake:
		case <-ctx.Done():
			return false
		}
	}
}

// finish ends the body: nil for a whole one. Only the first call counts.
func (s *spool) finish(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return
	}
	s.done, s.err = true, err
	s.wakeLocked()
}

// bytes returns the whole body after a good end; the array is trimmed if it wastes more than an eighth.
func (s *spool) bytes() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cap(s.buf)-len(s.buf) <= cap(s.buf)/8 {
		return s.buf[:len(s.buf):len(s.buf)]
	}
	return append(make([]byte, 0, len(s.buf)), s.buf...)
}

func (s *spool) size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.base + int64(len(s.buf))
}

func (s *spool) wakeLocked() {
	if s.wake != nil {
		close(s.wake)
		s.wake = nil
	}
}

func (s *spool) wakeChanLocked() chan struct{} {
	if s.wake == nil {
		s.wake = make(chan struct{})
	}
	return s.wake
}

// reader attaches a reader at the start. It fails once bytes have been dropped.
func (s *spool) reader() (*spoolReader, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.through {
		return nil, false
	}
	r := &spoolReader{s: s}
	s.readers[r] = struct{}{}
	return r, true
}

// spoolReader is one reader's place in a spool. Not safe for concurrent use.
type spoolReader struct {
	s   *spool
	off int64 // guarded by s.mu
}

// next returns the bytes behind the reader's place and moves it there. With nothing to return it gives io.EOF after a
// whole body, the writer's error after a broken one, and otherwise (nil, nil) at once: the caller flushes and calls wait.
func (r *spoolReader) next() ([]byte, error) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	b := r.s.buf[r.off-r.s.base:]
	if len(b) > 0 {
		r.off += int64(len(b))
		if r.s.through {
			r.s.wakeLocked()
		}
		return b, nil
	}
	if !r.s.done {
		return nil, nil
	}
	if r.s.err != nil {
		return nil, r.s.err
	}
	return nil, io.EOF
}

// wait blocks until there is something for next, or ctx ends.
func (r *spoolReader) wait(ctx context.Context) error {
	r.s.mu.Lock()
	if r.s.done || r.off < r.s.base+int64(len(r.s.buf)) {
		r.s.mu.Unlock()
		return nil
	}
	wake := r.s.wakeChanLocked()
	r.s.mu.Unlock()
	select {
	case <-wake:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// close gives the place up.
func (r *spoolReader) close() {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	delete(r.s.readers, r)
	if r.s.through {
		r.s.wakeLocked()
	}
}
