package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
)

// formatVersion is the version of the database's layout.
const formatVersion = 2

// Buckets and keys, see docs/disk-format.md.
var (
	bucketMeta    = []byte("meta")
	bucketRecords = []byte("records") // groups of key hashes and where their records are
	bucketRecent  = []byte("recent")  // the same, newer: what waits to be settled in records
	bucketBodies  = []byte("bodies")  // body id, number of chunk → owner's key hash, content
	bucketFiles   = []byte("files")   // body id → owner's key hash, size

	// Place → value: of records without and with a file.
	bucketOrder     = []byte("order")
	bucketFileOrder = []byte("fileorder")

	keyFormat = []byte("format")
	keyState  = []byte("state")
)

var dataBuckets = [][]byte{bucketRecords, bucketRecent, bucketBodies, bucketFiles, bucketOrder, bucketFileOrder}

var (
	errClosed = errors.New("disk: store is closed")
	// errBroken means that bbolt could not go on: the database is damaged.
	errBroken = errors.New("disk: database broken")
	errFormat = errors.New("disk: unknown format")
)

const (
	indexName  = "index.db"
	brokenName = "index.db.broken"
)

// openIndex opens the database of dir, or makes one with this seed.
func openIndex(dir string, budget int64, seed uint64) (db *bbolt.DB, st state, err error) {
	err = guard(func() error {
		path := filepath.Join(dir, indexName)
		if db, err = bbolt.Open(path, 0o600, indexOptions()); err != nil {
			return err
		}
		// The file grows by this much at a time: little enough for small budgets.
		db.AllocSize = int(min(max(budget/128, 64<<10), 16<<20))
		if err = checkSize(db, path); err == nil {
			st, err = loadState(db, seed)
		}
		return err
	})
	if err != nil && db != nil {
		closeBroken(db)
		db = nil
	}
	return db, st, err
}

func indexOptions() *bbolt.Options {
	return &bbolt.Options{
		Timeout:         time.Second,
		FreelistType:    bbolt.FreelistMapType, // stays fast when the file is fragmented
		PreLoadFreelist: true,
	}
}

// checkSize refuses a file that was cut short: touching what is missing would be a fault.
func checkSize(db *bbolt.DB, path string) error {
	fi, err := os.Stat(path)
	if err != nil {
		return err
	}
	return db.View(func(tx *bbolt.Tx) error {
		if tx.Size() > fi.Size() {
			return fmt.Errorf("%w: %d bytes of %d", errBroken, fi.Size(), tx.Size())
		}
		return nil
	})
}

// guard runs f and turns a panic of bbolt's, or a fault in its memory map, into errBroken.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errBroken, p)
		}
	}()
	return f()
}

// closeBroken closes a database that may hold its own lock for ever because it panicked. It waits a moment, then leaves it behind.
func closeBroken(db *bbolt.DB) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = guard(db.Close) // it is given up anyway
	}()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
}

// state is what the database knows about itself; written with every transaction. The writer owns it.
type state struct {
	seed      uint64 // of the key hash
	epoch     uint32 // of the process that wrote last
	records   uint64
	fileBytes uint64 // in body files, in whole blocks
	place     uint64 // the next position in the order of use
	token     uint64 // the highest of any record
	floor     uint64 // records up to this token do not count
	recent    uint64 // entries in the bucket of that name
	settled   uint64 // the hash from which they are settled next
}

const stateSize = 68

func (st *state) encode() []byte {
	b := make([]byte, 0, stateSize)
	b = binary.BigEndian.AppendUint64(b, st.seed)
	b = binary.BigEndian.AppendUint32(b, st.epoch)
	for _, n := range []uint64{st.records, st.fileBytes, st.place, st.token, st.floor, st.recent, st.settled} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

func decodeState(b []byte) (st state, err error) {
	if len(b) != stateSize {
		return st, fmt.Errorf("%w: state of %d bytes", errBroken, len(b))
	}
	st.seed = binary.BigEndian.Uint64(b)
	st.epoch = binary.BigEndian.Uint32(b[8:])
	for i, n := range []*uint64{&st.records, &st.fileBytes, &st.place, &st.token, &st.floor, &st.recent, &st.settled} {
		*n = binary.BigEndian.Uint64(b[12+8*i:])
	}
	return st, nil
}

// loadState reads the state of an existing database, or prepares a new one.
func loadState(db *bbolt.DB, seed uint64) (st state, err error) {
	fresh := false
	err = db.View(func(tx *bbolt.Tx) error {
		if k, _ := tx.Cursor().First(); k == nil {
			fresh = true
			return nil
		}
		meta := tx.Bucket(bucketMeta)
		if meta == nil {
			return fmt.Errorf("%w: not a store of this program", errFormat)
		}
		if v := meta.Get(keyFormat); len(v) != 4 || binary.BigEndian.Uint32(v) != formatVersion {
			return fmt.Errorf("%w: %x, this program writes %d", errFormat, v, formatVersion)
		}
		for _, name := range dataBuckets {
			if tx.Bucket(name) == nil {
				return fmt.Errorf("%w: no bucket %s", errBroken, name)
			}
		}
		st, err = decodeState(meta.Get(keyState))
		return err
	})
	if err != nil || !fresh {
		return st, err
	}
	return initState(db, state{seed: seed})
}

func initState(db *bbolt.DB, st state) (state, error) {
	err := db.Update(func(tx *bbolt.Tx) error {
		for _, name := range append([][]byte{bucketMeta}, dataBuckets...) {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		meta := tx.Bucket(bucketMeta)
		if err := meta.Put(keyFormat, binary.BigEndian.AppendUint32(nil, formatVersion)); err != nil {
			return err
		}
		return meta.Put(keyState, st.encode())
	})
	return st, err
}
