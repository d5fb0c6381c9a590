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
const formatVersion = 3

// Buckets and keys, see docs/disk-format.md.
var (
	bucketMeta    = []byte("meta")
	bucketRecords = []byte("records") // groups of key hashes and where their records are
	bucketRecent  = []byte("recent")  // the same, newer: what waits to be settled in records
	bucketBodies  = []byte("bodies")  // body id, number of chunk → owner's key hash, content
	bucketFiles   = []byte("files")   // body id → owner's key hash, size

	bucketTerms   = []byte("terms")   // groups of hashes of a term and of a key that has it
	bucketTermLog = []byte("termlog") // what has changed of them lately
	bucketJournal = []byte("journal") // invalidations

	// Place → value: of records without and with a file.
	bucketOrder     = []byte("order")
	bucketFileOrder = []byte("fileorder")

	keyFormat = []byte("format")
	keyState  = []byte("state")
)

var dataBuckets = [][]byte{bucketRecords, bucketRecent, bucketBodies, bucketFiles, bucketOrder, bucketFileOrder, bucketTerms, bucketTermLog, bucketJournal}

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

// index is an open database and what the memory holds of it.
type index struct {
	db      *bbolt.DB
	st      state
	pending runs
	journal []invalidation
}

// openIndex opens the database of dir, or makes one with this seed. One of an earlier version is upgraded if there is a function for that.
func openIndex(dir string, budget int64, seed uint64, upgrade func(*bbolt.DB) error) (ix index, err error) {
	err = guard(func() error {
		path := filepath.Join(dir, indexName)
		if ix.db, err = bbolt.Open(path, 0o600, indexOptions()); err != nil {
			return err
		}
		// The file grows by this much at a time: little enough for small budgets.
		ix.db.AllocSize = int(min(max(budget/128, 64<<10), 16<<20))
		if err := checkSize(ix.db, path); err != nil {
			return err
		}
		if err := prepare(ix.db, seed, upgrade); err != nil {
			return err
		}
		return ix.db.View(ix.load)
	})
	if err != nil && ix.db != nil {
		closeBroken(ix.db)
		return index{}, err
	}
	return ix, err
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

	terms       uint64 // entries in the bucket of that name
	log         uint64 // the last block of termlog
	pass        uint64 // the last one when the present pass over its names began
	settledTerm pair   // the name from which they are settled next
}

// fields are the numbers of a state as they are encoded, behind seed and epoch.
func (st *state) fields() []*uint64 {
	return []*uint64{
		&st.records, &st.fileBytes, &st.place, &st.token, &st.floor, &st.recent, &st.settled,
		&st.terms, &st.log, &st.pass, &st.settledTerm.hash, &st.settledTerm.at,
	}
}

const stateSize = 108

func (st *state) encode() []byte {
	b := make([]byte, 0, stateSize)
	b = binary.BigEndian.AppendUint64(b, st.seed)
	b = binary.BigEndian.AppendUint32(b, st.epoch)
	for _, n := range st.fields() {
		b = binary.BigEndian.AppendUint64(b, *n)
	}
	return b
}

func decodeState(b []byte) (st state, err error) {
	if len(b) != stateSize {
		return st, fmt.Errorf("%w: state of %d bytes", errBroken, len(b))
	}
	st.seed = binary.BigEndian.Uint64(b)
	st.epoch = binary.BigEndian.Uint32(b[8:])
	for i, n := range st.fields() {
		*n = binary.BigEndian.Uint64(b[12+8*i:])
	}
	return st, nil
}

// prepare fills a new database, and upgrades one of an earlier version.
func prepare(db *bbolt.DB, seed uint64, upgrade func(*bbolt.DB) error) error {
	fresh, version := false, uint32(formatVersion)
	err := db.View(func(tx *bbolt.Tx) (err error) {
		if k, _ := tx.Cursor().First(); k == nil {
			fresh = true
			return nil
		}
		version, err = versionOf(tx)
		return err
	})
	switch {
	case err != nil:
		return err
	case fresh:
		return initState(db, state{seed: seed})
	case version == formatVersion:
		return nil
	case version == upgradable && upgrade != nil:
		return upgrade(db)
	case version == upgradable:
		return fmt.Errorf("%w: %d, this program writes %d; the proxy upgrades it when it starts", errFormat, version, formatVersion)
	default:
		return fmt.Errorf("%w: %d, this program writes %d", errFormat, version, formatVersion)
	}
}

func versionOf(tx *bbolt.Tx) (uint32, error) {
	meta := tx.Bucket(bucketMeta)
	if meta == nil {
		return 0, fmt.Errorf("%w: not a store of this program", errFormat)
	}
	v := meta.Get(keyFormat)
	if len(v) != 4 {
		return 0, fmt.Errorf("%w: %x", errFormat, v)
	}
	return binary.BigEndian.Uint32(v), nil
}

// load reads what the memory holds.
func (ix *index) load(tx *bbolt.Tx) (err error) {
	for _, name := range dataBuckets {
		if tx.Bucket(name) == nil {
			return fmt.Errorf("%w: no bucket %s", errBroken, name)
		}
	}
	if ix.st, err = decodeState(tx.Bucket(bucketMeta).Get(keyState)); err != nil {
		return err
	}
	ix.pending = loadTerms(tx)
	ix.journal, err = loadJournal(tx)
	return err
}

func initState(db *bbolt.DB, st state) error {
	return db.Update(func(tx *bbolt.Tx) error {
		for _, name := range append([][]byte{bucketMeta}, dataBuckets...) {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		return saveFormat(tx, st)
	})
}

// saveFormat makes tx one of the present version.
func saveFormat(tx *bbolt.Tx, st state) error {
	meta := tx.Bucket(bucketMeta)
	if err := meta.Put(keyFormat, binary.BigEndian.AppendUint32(nil, formatVersion)); err != nil {
		return err
	}
	return meta.Put(keyState, st.encode())
}
