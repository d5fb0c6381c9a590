package cache

import (
	"context"
	"io"
)

// spoolReader is one reader's place in a spool. Not safe for concurrent use.
type spoolReader struct {
	s       *spool
	off     int64   // guarded by s.mu
	place   int     // in s.readers; guarded by s.mu
	scratch *[]byte // for bytes from the file
}

// reader attaches a reader at the start. It fails once bytes may have been dropped.
func (s *spool) reader() (*spoolReader, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.through || s.done && s.file == nil && s.base > 0 {
		return nil, false
	}
	r := &s.one
	if r.s != nil { // taken
		r = new(spoolReader)
	}
	r.s = s
	r.place = len(s.readers)
	s.readers = append(s.readers, r)
	return r, true
}

// next returns bytes behind the reader's place and moves it there; they are valid until the next call. With nothing to return it gives
// io.EOF after a whole body, the writer's error after a broken one, and otherwise (nil, nil) at once: the caller flushes and calls wait.
func (r *spoolReader) next() ([]byte, error) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	switch {
	case r.off < r.s.fileEnd:
		return r.fromFileLocked()
	case r.off < r.s.endLocked():
		b := r.s.buf[r.off-r.s.base:]
		r.movedLocked(len(b))
		return b, nil
	case !r.s.done:
		return nil, nil
	case r.s.err != nil:
		return nil, r.s.err
	default:
		return nil, io.EOF
	}
}

// fromFileLocked reads without the lock, which it takes again.
func (r *spoolReader) fromFileLocked() ([]byte, error) {
	if r.scratch == nil {
		r.scratch = copyBuffers.Get().(*[]byte)
	}
	b := (*r.scratch)[:min(int64(len(*r.scratch)), r.s.fileEnd-r.off)]
	file, off := r.s.file, r.off
	r.s.mu.Unlock()
	n, err := file.ReadAt(b, off)
	r.s.mu.Lock()
	if n == 0 && err != nil {
		return nil, err
	}
	r.movedLocked(n)
	return b[:n], nil
}

func (r *spoolReader) movedLocked(n int) {
	r.off += int64(n)
	if r.s.through {
		r.s.wakeLocked() // the writer may wait for this reader
	}
}

// wait blocks until there is something for next, or ctx ends.
func (r *spoolReader) wait(ctx context.Context) error {
	r.s.mu.Lock()
	if r.s.done || r.off < r.s.endLocked() {
		r.s.mu.Unlock()
		return nil
	}
	return r.s.sleepLocked(ctx)
}

// dropLocked takes a reader out; the last one takes its place in the list.
func (s *spool) dropLocked(r *spoolReader) {
	end := len(s.readers) - 1
	last := s.readers[end]
	s.readers[r.place], last.place = last, r.place
	s.readers[end] = nil
	s.readers = s.readers[:end]
}

// close gives the place up.
func (r *spoolReader) close() {
	r.s.mu.Lock()
	r.s.dropLocked(r)
	if r.s.through {
		r.s.wakeLocked()
	}
	file := r.s.idleFileLocked()
	r.s.mu.Unlock()
	closeFile(file)
	if r.scratch != nil {
		copyBuffers.Put(r.scratch)
		r.scratch = nil
	}
}
