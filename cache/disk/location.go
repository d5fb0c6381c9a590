package disk

import (
	"encoding/binary"
	"fmt"
	"iter"
	"slices"

	"go.etcd.io/bbolt"
)

// location says where the value of a record is: its place, and whether that is one of fileorder. The zero location is nowhere.
type location uint64

func locationOf(place uint64, k bodyKind) location {
	l := location(place << 1)
	if k == bodyFile {
		l |= 1
	}
	return l
}

func (l location) place() uint64 { return uint64(l >> 1) }

func (l location) file() bool { return l&1 != 0 }

// moved is another place in the same order.
func (l location) moved(place uint64) location { return location(place<<1) | l&1 }

// locate looks up the record of h. What recent says of it, that it is gone too, is newer than records.
func locate(recent, records groups, h uint64) location {
	e, ok := recent.lookup(pair{hash: h})
	if !ok {
		e, _ = records.lookup(pair{hash: h})
	}
	return location(e.at)
}

// locationIndex returns both parts of the index of locations, the newer first.
func locationIndex(tx *bbolt.Tx) (recent, records groups) {
	return groups{tx.Bucket(bucketRecent), byHash}, groups{tx.Bucket(bucketRecords), byHash}
}

// find returns the value of the record of h, nil if there is none. An index that points nowhere, or at the value of another, is damage.
func find(tx *bbolt.Tx, h uint64) ([]byte, error) {
	recent, records := locationIndex(tx)
	l := locate(recent, records, h)
	if l == 0 {
		return nil, nil
	}
	return valueAt(tx, l, h)
}

// valueAt returns the value of the record of h, which is at l.
func valueAt(tx *bbolt.Tx, l location, h uint64) ([]byte, error) {
	name := bucketOrder
	if l.file() {
		name = bucketFileOrder
	}
	v := get64(tx.Bucket(name), l.place())
	if len(v) < offVersion || be64(v[offHash:]) != h {
		return nil, fmt.Errorf("%w: no value at place %d", errDamaged, l.place())
	}
	return v, nil
}

// locations lists key hashes, from one on and in their order, and where their records are.
func locations(tx *bbolt.Tx, from uint64) iter.Seq2[uint64, location] {
	recent, records := locationIndex(tx)
	first := pair{hash: from}
	return func(yield func(uint64, location) bool) {
		for e := range byHash.present(recent.from(first).next, records.from(first).next) {
			if !yield(e.hash, location(e.at)) {
				return
			}
		}
	}
}

const (
	// recentMin and recentMax bound how many entries recent holds, and recentShare how many compared with all records: it stays small
	// beside them. More are settled, a sixteenth of that at a time.
	recentMin, recentMax = 512, 32 << 10
	recentShare          = 4
	settleShare          = 16
)

func (st *state) recentLimit() uint64 {
	return min(max(st.records/recentShare, recentMin), recentMax)
}

// setLocation notes where the record of h is; the zero location that it is gone.
func (t *txn) setLocation(h uint64, l location) { t.moved[h] = l }

// index brings what has moved into the index.
func (t *txn) index() error {
	list := make([]pair, 0, len(t.moved))
	for h, l := range t.moved {
		list = append(list, pair{h, uint64(l)})
	}
	slices.SortFunc(list, byHash.compare)
	grown, err := t.change(t.recent, list, true)
	if err != nil {
		return err
	}
	t.st.recent += uint64(grown)
	return t.settle()
}

// settle moves entries from recent to records, a stretch of hashes at a time, the one after another: so a page there takes several
// changes at once, where each new record would cost a page of its own.
func (t *txn) settle() error {
	for t.st.recent > t.st.recentLimit() {
		list, next, err := takeGroups(t.recent.Bucket, t.st.settled, int(t.st.recentLimit()/settleShare))
		if err != nil {
			return err
		}
		if len(list) == 0 && t.st.settled == 0 {
			t.st.recent = 0 // the count was wrong
			return nil
		}
		t.st.settled = next
		t.st.recent -= min(uint64(len(list)), t.st.recent)
		if _, err := t.change(t.records, list, false); err != nil {
			return err
		}
	}
	return nil
}

// key64 is n as a database key.
func key64(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func be64(b []byte) uint64 { return binary.BigEndian.Uint64(b) }

// get64, put64 and delete64 spare the allocation of a key, of which bbolt makes a copy if it keeps it.
func get64(b *bbolt.Bucket, n uint64) []byte {
	var k [8]byte
	binary.BigEndian.PutUint64(k[:], n)
	return b.Get(k[:])
}

func put64(b *bbolt.Bucket, n uint64, v []byte) error {
	var k [8]byte
	binary.BigEndian.PutUint64(k[:], n)
	return b.Put(k[:], v)
}

func delete64(b *bbolt.Bucket, n uint64) error {
	var k [8]byte
	binary.BigEndian.PutUint64(k[:], n)
	return b.Delete(k[:])
}

func seek64(c *bbolt.Cursor, n uint64) (key, value []byte) {
	var k [8]byte
	binary.BigEndian.PutUint64(k[:], n)
	return c.Seek(k[:])
}
