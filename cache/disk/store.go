package disk

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cespare/xxhash/v2"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/swrproxy/swrproxy/cache/internal/forgotten"
)

// remembered is how many forgotten tokens are kept, about 1 MiB.
const remembered = 16 << 10

// Store keeps records in a directory. Safe for concurrent use.
type Store struct {
	opt      Options
	lockFile *os.File
	seed     uint64 // of the key hash
	gauges   gauges
	counts   counters
	touched  touched
	absent   absent
	verified verified
	ids      ids
	firstID  uint64 // files with lower ids are from before the database was opened

	// pending are changes of the index of terms that its bucket lacks. What leaves it is in the bucket by then.
	pending atomic.Pointer[runs]

	// removals counts batches that have left the queue; it grows under mu.
	removals atomic.Uint64

	dbMu sync.RWMutex // guards following; held for reading in every transaction
	db   *bbolt.DB    // nil once closed

	mu      sync.RWMutex // guards following
	queue   queue
	journal journal
	gone    forgotten.Tokens
	spools  map[uint64]*Spool // those whose file has no record in the database yet
	garbage []*Spool          // whose files the writer removes
	closed  bool
	failing bool
	broken  error         // why the database must be replaced
	room    chan struct{} // closed when the queue has got shorter; nil when nobody waits

	w    writer
	stop chan struct{} // closed by Close
	done sync.WaitGroup
}

// gauges mirror the writer's state for readers.
type gauges struct {
	records, bytes, token, floor atomic.Int64
	spooled                      atomic.Int64 // bytes of spools
	onDisk                       atomic.Int64 // bytes of everything else, free pages too
	limit                        atomic.Int64 // bytes that could be used when room was last looked at
}

// counters are events since Open.
type counters struct {
	evicted, rejected, expired, purged, damaged, dropped, orphans, commits, failures, crowded atomic.Int64
}

// Open opens the store in o.Path, or makes one. It does not read what is stored: it takes some milliseconds whatever the number of
// records. Errors: ErrInUse, or what the file system said.
func Open(o Options) (*Store, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	s := &Store{opt: o, seed: rand.Uint64(), stop: make(chan struct{}), gone: forgotten.New(remembered), spools: make(map[uint64]*Spool)}
	s.queue.init()
	s.gauges.limit.Store(o.Max)
	s.w.init(s)
	if err := s.open(); err != nil {
		if s.lockFile != nil {
			_ = s.lockFile.Close() // nothing was written
		}
		return nil, fmt.Errorf("open disk store %s: %w", o.Path, err)
	}
	s.w.publish()
	s.done.Go(s.w.run)
	s.collectOrphans()
	return s, nil
}

func (s *Store) open() (err error) {
	for _, dir := range []string{s.opt.Path, s.path("bodies"), s.path("spool")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	if s.lockFile, err = lock(s.opt.Path, s.opt.LockWait); err != nil {
		return err
	}
	if err := clearDir(s.path("spool")); err != nil {
		return err
	}
	return s.openIndexOrNew()
}

// openIndexOrNew opens the database; one that can not be read is moved aside. A new one keeps the seed that is in use.
func (s *Store) openIndexOrNew() error {
	ix, err := openIndex(s.opt.Path, s.opt.Max, s.seed, s.upgrade)
	if err != nil {
		if isSystem(err) {
			return err
		}
		if err := s.setAside(err); err != nil {
			return err
		}
		if ix, err = openIndex(s.opt.Path, s.opt.Max, s.seed, s.upgrade); err != nil {
			return err
		}
	}
	s.adopt(ix)
	return nil
}

// isSystem tells an error of the file system, which a new database would not mend.
func isSystem(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) || errors.Is(err, os.ErrPermission) || errors.Is(err, berrors.ErrTimeout)
}

// setAside moves a database out of the way, in place of an earlier one: its room counts, and it is removed once that is needed.
func (s *Store) setAside(why error) error {
	from, to := s.path(indexName), s.path(brokenName)
	if err := os.Rename(from, to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	s.opt.Notify(Event{Kind: EventQuarantined, Text: fmt.Sprintf("database %s moved to %s, starting empty", from, to), Err: why})
	return nil
}

func (s *Store) adopt(ix index) {
	s.db = ix.db
	st := ix.st
	st.epoch = max(st.epoch+1, uint32(time.Now().Unix()))
	s.firstID = s.ids.start(st.epoch)
	s.verified.start(s.firstID)
	if s.seed != st.seed { // only in Open: readers use it without a lock
		s.seed = st.seed
	}
	s.w.st = st
	s.pending.Store(&ix.pending)
	if len(ix.journal) > 0 { // only in Open: a new database has none
		s.mu.Lock()
		defer s.mu.Unlock()
		s.journal.load(ix.journal)
	}
}

// Close writes what is queued, until ctx ends, and gives the directory back. A commit that has begun is waited for. The second call does
// nothing.
func (s *Store) Close(ctx context.Context) error {
	if !s.shut() {
		return nil
	}
	err := s.w.flush(ctx, true)
	close(s.stop)
	s.done.Wait()
	s.dbMu.Lock()
	defer s.dbMu.Unlock()
	if cerr := s.closeIndex(); err == nil {
		err = cerr
	}
	if cerr := s.lockFile.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("close disk store %s: %w", s.opt.Path, err)
	}
	return nil
}

func (s *Store) closeIndex() error {
	db := s.db
	s.db = nil
	return guard(db.Close)
}

func (s *Store) shut() (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first = !s.closed
	s.closed = true
	s.wakeRoomLocked()
	return first
}

// Sync waits until all changes made before it are on disk, or ctx ends. While the disk is failing it returns the cause at once.
func (s *Store) Sync(ctx context.Context) error {
	if s.isClosed() {
		return errClosed
	}
	return s.w.flush(ctx, false)
}

func (s *Store) isClosed() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.closed
}

// view runs f in a read transaction. f must copy what it keeps.
func (s *Store) view(f func(*bbolt.Tx) error) error {
	s.dbMu.RLock()
	defer s.dbMu.RUnlock()
	if s.db == nil {
		return errClosed
	}
	err := guard(func() error { return s.db.View(f) })
	if errors.Is(err, errBroken) {
		s.report(err)
	}
	return err
}

// report asks the writer to replace the database.
func (s *Store) report(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == nil {
		s.broken = err
	}
	s.w.wake()
}

func (s *Store) path(elem ...string) string {
	return filepath.Join(append([]string{s.opt.Path}, elem...)...)
}

// hash is the database key of a record's key. Its seed is the database's own, so that nobody outside can make keys collide.
func (s *Store) hash(key string) uint64 { return hashKey(s.seed, key) }

func hashKey(seed uint64, key string) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(seed)
	_, _ = d.WriteString(key) // never fails
	return d.Sum64()
}

// ids numbers bodies: the process's epoch in the upper half, a count in the lower, which borrows from the next epoch if it runs
// over. Safe for concurrent use.
type ids struct{ last atomic.Uint64 }

// start goes on with epoch unless later numbers were given already. It returns the lowest number that comes.
func (i *ids) start(epoch uint32) uint64 {
	if first := uint64(epoch) << 32; i.last.Load() < first {
		i.last.Store(first)
	}
	return i.last.Load() + 1
}

func (i *ids) next() uint64 { return i.last.Add(1) }

// epoch is the one that the latest number belongs to.
func (i *ids) epoch() uint32 { return uint32(i.last.Load() >> 32) }
