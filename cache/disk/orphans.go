package disk

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"go.etcd.io/bbolt"
)

const (
	// orphanPage is how many names are read from a directory at once.
	orphanPage = 256
	// orphanPause lies between them: collecting is in no hurry.
	orphanPause = 2 * time.Millisecond
)

// collectOrphans starts the removal of body files that no record owns, which a crash between a rename and its commit, or between a
// commit and a removal, leaves behind. It looks only at files from before the database was opened.
func (s *Store) collectOrphans() {
	below := s.firstID
	s.done.Go(func() { s.removeOrphans(below) })
}

func (s *Store) removeOrphans(below uint64) {
	n := 0
	dirs, err := os.ReadDir(s.path("bodies"))
	if err != nil {
		return // nothing is there, or the next start tries again
	}
	for _, d := range dirs {
		found, ok := s.orphansIn(s.path("bodies", d.Name()), below)
		n += found
		if !ok {
			break
		}
	}
	s.counts.orphans.Add(int64(n))
	if n > 0 {
		s.opt.Notify(Event{Kind: EventOrphans, Text: strconv.Itoa(n) + " files without a record removed from " + s.opt.Path})
	}
}

func (s *Store) orphansIn(dir string, below uint64) (n int, ok bool) {
	f, err := os.Open(dir)
	if err != nil {
		return 0, true
	}
	defer f.Close()
	for {
		names, err := f.Readdirnames(orphanPage)
		for _, name := range names {
			if s.isOrphan(name, below) && os.Remove(filepath.Join(dir, name)) == nil {
				n++
			}
		}
		if err != nil {
			return n, errors.Is(err, io.EOF)
		}
		select {
		case <-s.stop:
			return n, false
		case <-time.After(orphanPause):
		}
	}
}

func (s *Store) isOrphan(name string, below uint64) bool {
	id, err := strconv.ParseUint(name, 16, 64)
	if err != nil {
		return true // nothing of ours has such a name
	}
	if id >= below || s.isSpool(id) {
		return false
	}
	owned := true
	_ = s.view(func(tx *bbolt.Tx) error { // what can not be told stays
		owned = get64(tx.Bucket(bucketFiles), id) != nil
		return nil
	})
	return !owned
}

func (s *Store) isSpool(id uint64) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.spools[id] != nil
}

// clearDir removes the files of a directory that may hold nothing at a start.
func clearDir(dir string) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
