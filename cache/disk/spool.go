package disk

import (
	"errors"
	"os"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/swrproxy/swrproxy/cache"
)

// ErrNoRoom is returned by a spool's Write when spools may take no more of the budget.
var ErrNoRoom = errors.New("disk: no room for spools")

// spoolStep is after how many bytes of spools the writer looks at the room that is left.
const spoolStep = 1 << 20

var errFinished = errors.New("disk: spool is finished")

// Spool is a body on its way: a file that one fill writes and any number of readers read meanwhile. Write, Body and Close are for
// the fill alone; ReadAt and Size are safe for concurrent use with them.
type Spool struct {
	s  *Store
	id uint64
	f  *os.File

	mu   sync.Mutex // guards following
	size int64
	sum  *xxhash.Digest
	done bool

	// Guarded by the store's mutex.
	refs int  // changes that need the file
	open bool // the fill has not closed it

	// The writer's own.
	moved bool // the file is in its place
	owned bool // a record has had it
}

var _ cache.Spool = (*Spool)(nil)

// NewSpool makes an empty spool. Spools take at most half of the store's budget together; Write says so.
func (s *Store) NewSpool() (cache.Spool, error) {
	id := s.ids.next()
	f, err := os.OpenFile(s.spoolPath(id), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		s.counts.failures.Add(1)
		return nil, err
	}
	sp := &Spool{s: s, id: id, f: f, sum: xxhash.New(), open: true}
	if !s.addSpool(sp) {
		_ = f.Close() // removed at the next start
		return nil, errClosed
	}
	return sp, nil
}

func (s *Store) addSpool(sp *Spool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.spools[sp.id] = sp
	return true
}

// Write appends p. After an error the spool is of no use but to those who read what it holds.
func (sp *Spool) Write(p []byte) (int, error) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if sp.done {
		return 0, errFinished
	}
	if err := sp.s.reserve(int64(len(p))); err != nil {
		return 0, err
	}
	n, err := 0, sp.s.opt.fault(faultWrite)
	if err == nil {
		n, err = sp.f.Write(p)
	}
	if err != nil {
		sp.s.counts.failures.Add(1)
		sp.s.w.wake() // it looks at the room that is left
	}
	sp.s.gauges.spooled.Add(int64(n - len(p)))
	_, _ = sp.sum.Write(p[:n]) // never fails
	sp.size += int64(n)
	return n, err
}

// reserve takes n bytes of the budget for spools. The writer is told to make room before there is none.
func (s *Store) reserve(n int64) error {
	spooled := s.gauges.spooled.Add(n)
	if spooled > s.opt.Max/2 || s.gauges.onDisk.Load()+spooled > s.opt.Max {
		s.gauges.spooled.Add(-n)
		s.counts.rejected.Add(1)
		s.w.wake()
		return ErrNoRoom
	}
	if spooled/spoolStep != (spooled-n)/spoolStep {
		s.w.wake()
	}
	return nil
}

// ReadAt reads what was written so far; io.EOF means that there is no more yet. It works until Close.
func (sp *Spool) ReadAt(p []byte, off int64) (int, error) { return sp.f.ReadAt(p, off) }

// File is the spool's file, positioned anywhere: for readers that send it with sendfile. It is valid until Close.
func (sp *Spool) File() *os.File { return sp.f }

// Size is the number of bytes written so far.
func (sp *Spool) Size() int64 {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return sp.size
}

// Body ends writing and returns the content as a body for Put, which takes the file over without a copy.
func (sp *Spool) Body() (cache.Body, error) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.done = true
	if sp.size == 0 {
		return cache.MemoryBody(nil), nil
	}
	return sp.s.cacheBody(ref{kind: bodyFile, id: sp.id, size: sp.size, sum: sp.sum.Sum64()}), nil
}

// Close frees the descriptor, and removes the file unless a record has taken it over or waits to. Bodies of it that are open stay
// readable. The second call does nothing.
func (sp *Spool) Close() error {
	sp.s.mu.Lock()
	was := sp.open
	sp.open = false
	sp.s.sweepSpoolLocked(sp)
	sp.s.mu.Unlock()
	if !was {
		return nil
	}
	return sp.f.Close()
}

// sweepSpoolLocked lets the writer remove sp's file if nobody needs it.
func (s *Store) sweepSpoolLocked(sp *Spool) {
	if sp.open || sp.refs > 0 || s.spools[sp.id] != sp {
		return
	}
	delete(s.spools, sp.id)
	s.garbage = append(s.garbage, sp)
	s.w.wake()
}

// removeGarbage removes the files of spools that came to nothing.
func (s *Store) removeGarbage() {
	s.mu.Lock()
	list := s.garbage
	s.garbage = nil
	s.mu.Unlock()
	for _, sp := range list {
		s.removeBody(sp.id)
		s.gauges.spooled.Add(-sp.Size())
	}
}

// removeBody removes a body file, wherever it has got to. What can not be removed is collected as an orphan after the next start.
func (s *Store) removeBody(id uint64) {
	for _, path := range []string{s.spoolPath(id), s.bodyPath(id)} {
		_ = os.Remove(path)
	}
	s.verified.remove(id)
}
