package disk

import (
	"errors"
	"fmt"
	"math"
	"os"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// makeRoom evicts until items fit, with extra bytes to spare in the database, and a little more so that not every batch has to.
// Bodies that need a file for which no room can be made are given up.
func (w *writer) makeRoom(items []item, extra int64) error {
	for {
		inDB, inFiles := needs(items)
		u := w.s.usage(w.st)
		l := u.lacks(inDB+extra, inFiles)
		if l.none() {
			return nil
		}
		before := w.s.counts.evicted.Load()
		more, err := w.evict(l, u)
		if u.crowded(inDB+extra, inFiles, w.s.opt.Max) {
			w.crowded(u, w.s.counts.evicted.Load()-before)
		}
		switch {
		case err != nil:
			return err
		case more:
		case l.files > 0 && w.giveUpFiles(items):
		case l.total > 0 || l.inDB > 0:
			return fmt.Errorf("%w: %d bytes on disk, limit %d", errNoSpace, u.onDisk(), u.limit)
		default:
			return nil // spools alone are over: they end by themselves
		}
	}
}

var errNoSpace = errors.New("disk: no space")

// giveUpFiles drops the bodies of items that need files, and tells whether there were any.
func (w *writer) giveUpFiles(items []item) (any bool) {
	for i := range items {
		it := &items[i]
		if it.gone || !it.file && it.o.kept == nil {
			continue
		}
		it.gone, it.file, any = true, false, true
		w.s.counts.dropped.Add(1)
	}
	return any
}

// evict makes some of the room that is missing, and tells whether it could.
func (w *writer) evict(l lacks, u usage) (any bool, err error) {
	if u.broken > 0 {
		return true, os.Remove(w.s.path(brokenName))
	}
	_, most := w.s.batch()
	more := u.limit / 64 // so that the next batch need not
	evict := func(t *txn) error {
		any = false
		for _, step := range []struct {
			lack   int64
			orders []*bbolt.Bucket
			freed  func() int64
		}{
			{l.total, t.order[:], func() int64 { return t.freedDB + t.freedFiles }},
			{l.inDB, t.order[:1], func() int64 { return t.freedDB }},
			{l.files, t.order[1:], func() int64 { return t.freedFiles }},
		} {
			went, err := t.evict(&w.s.touched, most, step.orders, func() bool { return step.lack <= 0 || step.freed() >= step.lack+more })
			if any = any || went; err != nil {
				return err
			}
		}
		return nil
	}
	if err = w.commit(true, evict); errors.Is(err, berrors.ErrMaxSizeReached) {
		err = w.commit(false, evict)
	}
	return any, err
}

// usage is how the budget stands. All in bytes.
type usage struct {
	limit  int64 // what may be used now: the budget, or what the file system has left
	file   int64 // size of the database file
	free   int64 // free pages in it
	bodies int64 // body files
	spools int64
	broken int64 // a database that was moved aside
}

func (s *Store) usage(st state) usage {
	u := usage{bodies: int64(st.fileBytes), spools: s.gauges.spooled.Load()}
	u.file, u.free = s.fileSizes()
	if fi, err := os.Stat(s.path(brokenName)); err == nil {
		u.broken = fi.Size()
	}
	u.limit = s.opt.Max
	fs := s.opt.space(s.opt.Path)
	// Evicting needs a little room itself, and so do others on the file system.
	reserve := min(max(min(s.opt.Max, fs.total)/32, 1<<20), 64<<20)
	u.limit = min(u.limit, u.onDisk()+max(fs.free-reserve, 0))
	s.gauges.limit.Store(u.limit)
	return u
}

// space is what a file system has, in bytes.
type space struct{ free, total int64 }

// unknownSpace stands for a file system that does not tell: as if it were without bounds.
var unknownSpace = space{free: math.MaxInt64 / 2, total: math.MaxInt64 / 2}

// onDisk is what the directory holds.
func (u usage) onDisk() int64 { return u.file + u.bodies + u.spools + u.broken }

// lacks says how much room is missing, in bytes; nothing if none is above 0.
type lacks struct {
	total int64 // any record makes this room
	inDB  int64 // only small ones do
	files int64 // only those with files do
}

func (l lacks) none() bool { return l.total <= 0 && l.inDB <= 0 && l.files <= 0 }

// lacks is what is missing if so many bytes more come. A sixteenth of the limit stays free: bbolt copies pages before it frees them. The
// database may take seven eighths: it never shrinks, so room for files must be left.
func (u usage) lacks(inDB, files int64) lacks {
	spare := u.limit / 16
	live := u.file - u.free + inDB
	return lacks{
		total: live + u.bodies + u.spools + u.broken + files - (u.limit - spare),
		inDB:  live - (dbShare(u.limit) - spare),
		files: u.onDisk() + files - u.limit,
	}
}

// crowded tells whether so many bytes more would fit if the file system left all of the budget.
func (u usage) crowded(inDB, files, budget int64) bool {
	u.limit = budget
	return u.lacks(inDB, files).none()
}

// dbShare is how large the database file may get within a limit.
func dbShare(limit int64) int64 { return limit - limit/8 }
