package disk

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/swrproxy/swrproxy/cache"
)

// upgradable is the version that Open makes one of the present. It had no index of terms and no journal; its state was the first part of today's.
const (
	upgradable     = 2
	upgradableSize = 68
)

const (
	// upgradePairs is how many entries of the index an upgrade holds in memory, 64 MiB. It reads all values for each half of that.
	upgradePairs = 4 << 20
	// upgradeBatch is how many of them one transaction writes.
	upgradeBatch = 64 << 10
	// upgradeGroup is how long a group is then: some come in before it is split.
	upgradeGroup = groupSize / 4 * 3
)

// upgrade makes db one of the present version. The version changes in the last transaction: after a crash the next start begins anew.
func (s *Store) upgrade(db *bbolt.DB) error {
	u := upgrade{db: db, max: upgradePairs}
	start := time.Now()
	if err := u.run(); err != nil {
		// Not to be taken for an error of the file system, with which the start would fail: it costs the records, and no more.
		return fmt.Errorf("%w: upgrade from version %d: %v", errBroken, upgradable, err)
	}
	s.opt.Notify(Event{
		Kind: EventUpgraded,
		Text: fmt.Sprintf("database in %s upgraded from version %d to %d in %v, %d records", s.opt.Path, upgradable, formatVersion, time.Since(start).Round(time.Millisecond), u.st.records),
	})
	return nil
}

// upgrade builds the index of terms in the order of its names, in one pass over all values if memory takes it. Not safe for concurrent use.
type upgrade struct {
	db   *bbolt.DB
	max  int // entries in memory
	st   state
	list []pair
	// committed is called after each transaction; only tests set it.
	committed func() error
}

func (u *upgrade) run() error {
	if err := u.update(u.begin); err != nil {
		return err
	}
	for from, more := (pair{}), true; more; {
		if err := u.db.View(func(tx *bbolt.Tx) (err error) { more, err = u.gather(tx, from); return err }); err != nil {
			return err
		}
		for part := range slices.Chunk(u.list, upgradeBatch) {
			if err := u.update(func(tx *bbolt.Tx) error { return u.write(tx, part) }); err != nil {
				return err
			}
		}
		if more {
			from = after(u.list[len(u.list)-1])
		}
	}
	return u.update(u.end)
}

func (u *upgrade) update(f func(*bbolt.Tx) error) error {
	err := u.db.Update(f)
	if err == nil && u.committed != nil {
		err = u.committed()
	}
	return err
}

// after is the name behind that of p.
func after(p pair) pair {
	if p.at++; p.at == 0 {
		p.hash += goneBit << 1
	}
	return p
}

// begin makes the buckets that are missing, without what an upgrade that was broken off left in them.
func (u *upgrade) begin(tx *bbolt.Tx) error {
	v := tx.Bucket(bucketMeta).Get(keyState)
	if len(v) != upgradableSize {
		return fmt.Errorf("%w: state of %d bytes", errBroken, len(v))
	}
	st, err := decodeState(append(slices.Clone(v), make([]byte, stateSize-upgradableSize)...))
	if err != nil {
		return err
	}
	u.st = st
	for _, name := range [][]byte{bucketTerms, bucketTermLog, bucketJournal} {
		if err := tx.DeleteBucket(name); err != nil && !errors.Is(err, berrors.ErrBucketNotFound) {
			return err
		}
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	return nil
}

// gather lists the first entries from a name on, and tells whether there are more. Damaged values have none: a read drops them.
func (u *upgrade) gather(tx *bbolt.Tx, from pair) (more bool, err error) {
	u.list = u.list[:0]
	last := lastPair // that this pass takes
	add := func(_, v []byte) error {
		var r cache.Record
		head, err := decodeNames(&r, v)
		if err != nil {
			return nil
		}
		for _, term := range termsOf(u.st.seed, &r) {
			if p := (pair{term, head.hash}); byBoth.compare(p, from) >= 0 && byBoth.compare(p, last) <= 0 {
				u.list = append(u.list, p)
			}
		}
		if len(u.list) >= u.max {
			u.tidy()
			if half := u.max / 2; len(u.list) > half {
				u.list, last, more = u.list[:half], u.list[half-1], true
			}
		}
		return nil
	}
	for _, name := range [][]byte{bucketOrder, bucketFileOrder} {
		if err := tx.Bucket(name).ForEach(add); err != nil {
			return more, err
		}
	}
	u.tidy()
	return more, nil
}

func (u *upgrade) tidy() {
	slices.SortFunc(u.list, byBoth.compare)
	u.list = slices.Compact(u.list)
}

// write puts entries at the end of the bucket.
func (u *upgrade) write(tx *bbolt.Tx, list []pair) error {
	terms := groups{tx.Bucket(bucketTerms), byBoth}
	terms.FillPercent = 0.8
	for group := range slices.Chunk(list, upgradeGroup/pairSize) {
		var v []byte
		for _, p := range group {
			v = appendPair(v, p)
		}
		if err := terms.put(group[len(group)-1], v); err != nil {
			return err
		}
	}
	u.st.terms += uint64(len(list))
	return nil
}

func (u *upgrade) end(tx *bbolt.Tx) error { return saveFormat(tx, u.st) }
