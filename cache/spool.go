package cache

import (
	"context"
	"net/http"
	"sync"
)

const (
	// minSpool is the first buffer for a body of unknown length.
	minSpool = 4 << 10
	// spoolMemory is how much of an arriving body is held in memory, where the store can take the rest on disk.
	spoolMemory = 1 << 20
	// throughWindow is how far a body that is not kept may run ahead of its slowest reader.
	throughWindow = 1 << 20
	// fileStep is how much is read from the origin at a time for a body that goes to a file.
	fileStep = 64 << 10
)

// spool is a body while it arrives: one writer, any number of readers, each at its own offset. Until it grows over its limit it keeps
// every byte and never waits for a reader, so that a slow client stalls neither the fill nor other readers: in memory at first, beyond
// spoolMemory in a file of the store, if that has files. Over the limit, or when the file takes no more, it turns into a window: it drops
// what all readers have read and waits for the slowest.
//
// The bytes before fileEnd are in the file, those from base on in buf. Bytes once written are never changed or moved under a reader: growing
// allocates a new array. Safe for concurrent use.
type spool struct {
	limit int64

	// The writer's own.
	files   Spooler    // nil: memory only
	scratch []byte     // where the writer puts bytes that go to the file
	memory  *spoolRoom // for what is not in a file

	mu      sync.Mutex // guards following
	buf     []byte
	taken   int64 // of memory
	crowded bool  // the body is not kept because there was no room
	base    int64 // offset of buf[0]
	file    Spool
	fileEnd int64
	through bool // the body is not kept any more
	done    bool
	err     error
	trailer http.Header   // behind a whole body
	wake    chan struct{} // closed when something changed; nil when nobody waits
	readers []*spoolReader
	first   [1]*spoolReader // room for readers: most have one
	one     spoolReader     // the reader in first
}

// newSpool makes a spool for a body of expect bytes, negative if unknown.
func newSpool(limit, expect int64, files Spooler) *spool {
	s := new(spool)
	s.open(limit, expect, files)
	return s
}

// open makes s ready, which is new.
func (s *spool) open(limit, expect int64, files Spooler) {
	s.limit, s.files = limit, files
	s.readers = s.first[:0]
	switch {
	case expect <= 0 || expect > limit:
	case expect > spoolMemory && files != nil:
		s.spill()
	default:
		s.buf = make([]byte, 0, min(expect, spoolMemory))
	}
}

// room returns free space behind the bytes written. Only the writer calls it; it writes there and then calls advance.
func (s *spool) room() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil && !s.through {
		return s.scratch
	}
	if len(s.buf) == cap(s.buf) {
		s.growLocked()
	}
	return s.buf[len(s.buf):cap(s.buf)]
}

func (s *spool) growLocked() {
	keep := s.buf
	if s.through {
		low := max(s.lowestLocked(), s.base)
		keep = s.buf[low-s.base:]
		s.base = low
	}
	grown := make([]byte, len(keep), max(minSpool, 2*len(keep)))
	copy(grown, keep)
	s.buf = grown
	if s.through {
		s.giveLocked(int64(cap(grown)))
	}
}

// takeLocked counts the buffer. False means that there is no room for it.
func (s *spool) takeLocked() bool {
	n := int64(cap(s.buf))
	if s.memory == nil || n <= spoolFree || n <= s.taken {
		return true
	}
	if !s.memory.take(s.taken, n) {
		return false
	}
	s.taken = n
	return true
}

// giveLocked counts no more than left bytes from now on.
func (s *spool) giveLocked(left int64) {
	if s.taken > left {
		s.memory.give(s.taken - left)
		s.taken = left
	}
}

// lowestLocked is the offset of the slowest reader, or the end if there is none.
func (s *spool) lowestLocked() int64 {
	low := s.endLocked()
	for _, r := range s.readers {
		low = min(low, r.off)
	}
	return low
}

func (s *spool) endLocked() int64 { return s.base + int64(len(s.buf)) }

// advance publishes n bytes that were written into room. It tells whether this was when the body stopped being kept.
func (s *spool) advance(n int) (over bool) {
	if s.filing() {
		return s.advanceFile(n)
	}
	s.mu.Lock()
	s.buf = s.buf[:len(s.buf)+n]
	size := s.endLocked()
	if !s.through && size <= s.limit {
		s.crowded = !s.takeLocked()
	}
	over = !s.through && (size > s.limit || s.crowded)
	s.through = s.through || over
	s.wakeLocked()
	spill := !s.through && size > spoolMemory && s.files != nil
	s.mu.Unlock()
	if spill {
		s.spill()
	}
	return over
}

func (s *spool) filing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file != nil && !s.through
}

// spill moves what is there to a file. If that fails the body stays in memory.
func (s *spool) spill() {
	file, err := s.files.NewSpool()
	s.files = nil // one try
	if err != nil {
		return
	}
	if _, err := file.Write(s.buf); err != nil {
		_ = file.Close()
		return
	}
	s.scratch = make([]byte, fileStep)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.file, s.fileEnd = file, int64(len(s.buf))
	s.base, s.buf = s.fileEnd, nil
}

// advanceFile writes n bytes of scratch to the file. When that takes no more, or the body is over its limit, they begin the window.
func (s *spool) advanceFile(n int) (over bool) {
	b := s.scratch[:n]
	over = s.fileEnd+int64(n) > s.limit
	if !over {
		_, err := s.file.Write(b)
		over = err != nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if over {
		s.through = true
		s.buf = append(make([]byte, 0, 2*fileStep), b...)
	} else {
		s.fileEnd += int64(n)
		s.base = s.fileEnd
	}
	s.wakeLocked()
	return over
}

// throttle blocks, in a window, until the slowest reader is near enough or nobody reads any more (false) or ctx ends (false).
func (s *spool) throttle(ctx context.Context) bool {
	for {
		s.mu.Lock()
		switch {
		case !s.through:
			s.mu.Unlock()
			return true
		case len(s.readers) == 0:
			s.mu.Unlock()
			return false
		case s.endLocked()-s.lowestLocked() <= throughWindow:
			s.mu.Unlock()
			return true
		}
		if s.sleepLocked(ctx) != nil {
			return false
		}
	}
}

// finish ends the body: nil for a whole one. Only the first call counts.
func (s *spool) finish(err error) {
	s.mu.Lock()
	if s.done {
		s.mu.Unlock()
		return
	}
	s.done, s.err = true, err
	s.wakeLocked()
	file := s.idleFileLocked()
	s.mu.Unlock()
	closeFile(file)
}

// finishWhole is finish for a whole body with these trailer fields behind it, which it copies: whoever reads it may still look at its own.
func (s *spool) finishWhole(trailer http.Header) {
	s.mu.Lock()
	s.trailer = trailer.Clone()
	s.mu.Unlock()
	s.finish(nil)
}

// trailerFields are what stands behind a body that was read to its good end. Not to be modified.
func (s *spool) trailerFields() http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trailer
}

// idleFileLocked gives the room back and returns the file, if nobody needs them any more.
func (s *spool) idleFileLocked() Spool {
	if !s.done || len(s.readers) > 0 {
		return nil
	}
	s.giveLocked(0)
	file := s.file
	s.file = nil
	return file
}

func closeFile(file Spool) {
	if file != nil {
		_ = file.Close() // what no record took over is removed
	}
}

// body returns the whole body after its good end and before finish.
func (s *spool) body() (Body, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil {
		return s.file.Body()
	}
	return MemoryBody(trimmed(s.buf)), nil
}

// trimmed returns b, in an array of its own if the present one wastes more than an eighth.
func trimmed(b []byte) []byte {
	if cap(b)-len(b) <= cap(b)/8 {
		return b[:len(b):len(b)]
	}
	return append(make([]byte, 0, len(b)), b...)
}

// kept tells whether the body still has all its bytes.
func (s *spool) kept() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.through
}

// noRoom tells whether the body is not kept because others took too much memory.
func (s *spool) noRoom() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.crowded
}

// broken returns why the body broke off, nil if it has not so far.
func (s *spool) broken() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *spool) size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endLocked()
}

func (s *spool) wakeLocked() {
	if s.wake != nil {
		close(s.wake)
		s.wake = nil
	}
}

// finished waits until the body is whole or broken and what becomes of it is settled, or ctx ends.
func (s *spool) finished(ctx context.Context) error {
	for {
		s.mu.Lock()
		if s.done {
			s.mu.Unlock()
			return nil
		}
		if err := s.sleepLocked(ctx); err != nil {
			return err
		}
	}
}

// sleepLocked gives the lock back and waits until something has changed, or ctx ends.
func (s *spool) sleepLocked(ctx context.Context) error {
	wake := s.wakeChanLocked()
	s.mu.Unlock()
	select {
	case <-wake:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *spool) wakeChanLocked() chan struct{} {
	if s.wake == nil {
		s.wake = make(chan struct{})
	}
	return s.wake
}
