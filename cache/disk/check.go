package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"go.etcd.io/bbolt"

	"github.com/swrproxy/swrproxy/cache"
)

// Report is what [Check] found.
type Report struct {
	// Records is how many records there are, Bytes the size of their bodies.
	Records, Bytes int64
	// Orphans is how many body files no record owns; they are removed after the next start.
	Orphans int64
	// Stale is how many entries of the index of terms find nothing, as those of damaged records that were dropped. They cost their room alone.
	Stale int64
	// Problems says what is wrong: with bbolt's pages, records, bodies, the index of terms. A store that opens would drop records that are
	// damaged; one that the index of terms lacks may be missed by a purge.
	Problems []string
}

// maxProblems bounds a report.
const maxProblems = 1000

func (r *Report) problem(format string, args ...any) {
	switch len(r.Problems) {
	case maxProblems:
		r.Problems = append(r.Problems, "and more")
	case maxProblems + 1:
	default:
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	}
}

// Check verifies everything in the store at path: pages, records, every body. It changes nothing, and fails with ErrInUse while a
// process has the store open. An error means that it could not look, or that ctx ended.
func Check(ctx context.Context, path string) (Report, error) {
	var rep Report
	s, err := openToRead(path)
	if err == nil {
		err = s.check(ctx, &rep)
		if cerr := s.closeOffline(); err == nil {
			err = cerr
		}
	}
	if err != nil {
		return rep, fmt.Errorf("check disk store %s: %w", path, err)
	}
	return rep, nil
}

// openToRead opens a store without its goroutines and without mending anything.
func openToRead(path string) (*Store, error) {
	o := Options{Path: path}
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(path, indexName)); err != nil {
		return nil, err
	}
	s := &Store{opt: o}
	var err error
	if s.lockFile, err = lock(path, o.LockWait); err != nil {
		return nil, err
	}
	ix, err := openIndex(path, o.Max, 0, nil)
	if err != nil {
		_ = s.lockFile.Close() // nothing was written
		return nil, err
	}
	s.adopt(ix)
	s.verified.first = ^uint64(0) // nothing is taken on trust
	return s, nil
}

func (s *Store) closeOffline() error {
	return errors.Join(s.closeIndex(), s.lockFile.Close())
}

func (s *Store) check(ctx context.Context, rep *Report) error {
	if err := s.checkPages(rep); err != nil {
		return err
	}
	if err := s.checkRecords(ctx, rep); err != nil {
		return err
	}
	s.checkFiles(rep)
	return nil
}

func (s *Store) checkPages(rep *Report) error {
	return s.offline(func(tx *bbolt.Tx) error {
		for err := range tx.Check() {
			rep.problem("database: %v", err)
		}
		return nil
	})
}

// offline is view without the report to a writer that does not run.
func (s *Store) offline(f func(*bbolt.Tx) error) error {
	return guard(func() error { return s.db.View(f) })
}

func (s *Store) checkRecords(ctx context.Context, rep *Report) error {
	pending := s.pending.Load().all()
	return s.offline(func(tx *bbolt.Tx) error {
		terms := groups{tx.Bucket(bucketTerms), byBoth}
		for range byBoth.present(sourceOf(pending), terms.from(pair{}).next) {
			rep.Stale++ // until its record is found
		}
		for h, l := range locations(tx, 0) {
			if err := s.checkRecord(tx, h, l, pending, rep); err != nil {
				rep.problem("record %016x: %v", h, err)
			}
			if ctx.Err() != nil {
				break
			}
		}
		return ctx.Err()
	})
}

func (s *Store) checkRecord(tx *bbolt.Tx, h uint64, l location, pending []pair, rep *Report) error {
	v, err := valueAt(tx, l, h)
	if err != nil {
		return err
	}
	r, head, err := decodeValue(v)
	if err != nil {
		return err
	}
	rep.Records++
	rep.Bytes += head.body.size
	if want := s.hash(r.Key); want != h {
		return fmt.Errorf("%w: key %q belongs under %016x", errDamaged, r.Key, want)
	}
	if l.file() != (head.body.kind == bodyFile) {
		return fmt.Errorf("%w: in the wrong order of use", errDamaged)
	}
	if err := s.checkTerms(tx, r, h, pending, rep); err != nil {
		return err
	}
	return s.checkBody(tx, head.body)
}

// checkTerms tells whether the index lists r by each of its terms.
func (s *Store) checkTerms(tx *bbolt.Tx, r *cache.Record, h uint64, pending []pair, rep *Report) error {
	terms := groups{tx.Bucket(bucketTerms), byBoth}
	list := termsOf(s.seed, r)
	slices.Sort(list)
	for _, term := range slices.Compact(list) {
		p, ok := terms.lookup(pair{term, h})
		if i, newer := slices.BinarySearchFunc(pending, pair{term, h}, byBoth.compare); newer {
			p, ok = pending[i], true
		}
		if !ok || byBoth.gone(p) {
			return fmt.Errorf("%w: the index lacks one of its tags or its URL", errDamaged)
		}
		rep.Stale--
	}
	return nil
}

func (s *Store) checkBody(tx *bbolt.Tx, b ref) error {
	switch b.kind {
	case bodyInline:
		_, err := inline(tx, b)
		return err
	case bodyFile:
		f, err := s.openFile(b)
		if err != nil {
			return err
		}
		return f.Close()
	default:
		return nil
	}
}

// checkFiles counts body files without an owner.
func (s *Store) checkFiles(rep *Report) {
	names, err := filepath.Glob(s.path("bodies", "*", "*"))
	if err != nil {
		rep.problem("bodies: %v", err)
	}
	err = s.offline(func(tx *bbolt.Tx) error {
		for _, name := range names {
			id, err := strconv.ParseUint(filepath.Base(name), 16, 64)
			if err != nil || get64(tx.Bucket(bucketFiles), id) == nil {
				rep.Orphans++
			}
		}
		return nil
	})
	if err != nil {
		rep.problem("bodies: %v", err)
	}
}

// Compact rewrites the database file of the store at path without its free pages, and tells its size in bytes before and after. It needs
// room for a second file meanwhile, and fails with ErrInUse while a process has the store open. After a crash in the middle
// the store is as before.
func Compact(path string) (before, after int64, err error) {
	s, err := openToRead(path)
	if err == nil {
		before, after, err = s.compact()
		if cerr := s.lockFile.Close(); err == nil {
			err = cerr
		}
	}
	if err != nil {
		return before, after, fmt.Errorf("compact disk store %s: %w", path, err)
	}
	return before, after, nil
}

// compactBatch is how many bytes one transaction of a compaction copies.
const compactBatch = 16 << 20

func (s *Store) compact() (before, after int64, err error) {
	from, to := s.path(indexName), s.path(indexName+".compact")
	if err := os.RemoveAll(to); err != nil {
		return 0, 0, err
	}
	if before, err = fileSize(from); err == nil {
		err = guard(func() error { return copyIndex(to, s.db) })
	}
	if cerr := s.closeIndex(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(to, from)
	}
	if err != nil {
		_ = os.Remove(to) // overwritten by the next attempt
		return before, before, err
	}
	after, err = fileSize(from)
	return before, after, err
}

func copyIndex(to string, src *bbolt.DB) error {
	dst, err := bbolt.Open(to, 0o600, indexOptions())
	if err != nil {
		return err
	}
	dst.AllocSize = 64 << 10
	err = bbolt.Compact(dst, src, compactBatch)
	if err == nil {
		err = dst.Sync()
	}
	return errors.Join(err, dst.Close())
}

func fileSize(path string) (int64, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return fi.Size(), nil
}

var (
	_ cache.Store       = (*Store)(nil)
	_ cache.Walker      = (*Store)(nil)
	_ cache.StatsSource = (*Store)(nil)
	_ cache.BodyLimiter = (*Store)(nil)
	_ cache.Spooler     = (*Store)(nil)
)
