package disk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"

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

// at is another place in the same order.
func (l location) at(place uint64) location { return location(place<<1) | l&1 }

func decodeLocation(v []byte) location {
	if len(v) != 8 {
		return 0 // as if it were not there: its value is left behind, and eviction comes upon that
	}
	return location(be64(v))
}

// locate looks up the record of h. What recent says of it, that it is gone too, is newer than records.
func locate(recent, records *bbolt.Bucket, h uint64) location {
	if v := get64(recent, h); v != nil {
		return decodeLocation(v)
	}
	return decodeLocation(get64(records, h))
}

// find returns the value of the record of h, nil if there is none. An index that points nowhere, or at the value of another, is damage.
func find(tx *bbolt.Tx, h uint64) ([]byte, error) {
	l := locate(tx.Bucket(bucketRecent), tx.Bucket(bucketRecords), h)
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
	return func(yield func(uint64, location) bool) {
		recent, records := tx.Bucket(bucketRecent).Cursor(), tx.Bucket(bucketRecords).Cursor()
		rk, rv := recent.Seek(key64(from))
		k, v := records.Seek(key64(from))
		for rk != nil || k != nil {
			key, l := k, v
			order := compareKeys(rk, k)
			if order <= 0 {
				key, l = rk, rv
				rk, rv = recent.Next()
			}
			if order >= 0 {
				k, v = records.Next()
			}
			if l := decodeLocation(l); l != 0 && !yield(be64(key), l) {
				return
			}
		}
	}
}

// compareKeys orders keys; nil, the end of a bucket, comes last.
func compareKeys(a, b []byte) int {
	switch {
	case a == nil:
		return 1
	case b == nil:
		return -1
	default:
		return bytes.Compare(a, b)
	}
}

const (
	// sliceCount is in how many slices recent is settled, one after another: by the upper sliceBits of the hash.
	sliceCount = 1 << sliceBits
	sliceBits  = 4
	// minStep and maxStep bound after how many changes of the index the next slice is settled. Recent holds 16 times as many at most.
	minStep, maxStep = 32, 2048
)

// step is after how many changes the next slice is settled. It grows with the store, beside which recent stays small.
func (st *state) step() uint64 { return min(max(st.records/(4*sliceCount), minStep), maxStep) }

// setLocation notes where the record of h is; the zero location that it is gone.
func (t *txn) setLocation(h uint64, l location) error {
	t.st.changes++
	return put64(t.recent, h, t.keep64(uint64(l)))
}

// settle moves the slices whose turn it is from recent to records, where a leaf then takes several changes at once: hashes are random,
// and a change of its own for each costs a page each.
func (t *txn) settle() error {
	for t.st.changes >= t.st.step() {
		t.st.changes -= t.st.step()
		if err := t.settleSlice(t.st.slice % sliceCount); err != nil {
			return err
		}
		t.st.slice = (t.st.slice + 1) % sliceCount
	}
	return nil
}

func (t *txn) settleSlice(n uint64) error {
	type change struct {
		hash uint64
		at   location
	}
	var list []change
	c := t.recent.Cursor()
	for k, v := c.Seek(key64(n << (64 - sliceBits))); k != nil && be64(k)>>(64-sliceBits) == n; k, v = c.Next() {
		list = append(list, change{be64(k), decodeLocation(v)})
	}
	for i := len(list) - 1; i >= 0; i-- { // from the end: what follows in a leaf need not move
		if err := delete64(t.recent, list[i].hash); err != nil {
			return err
		}
	}
	for _, ch := range list {
		if err := t.settleOne(ch.hash, ch.at); err != nil {
			return err
		}
	}
	return nil
}

func (t *txn) settleOne(h uint64, l location) error {
	if l == 0 {
		return delete64(t.records, h)
	}
	return put64(t.records, h, t.keep64(uint64(l)))
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
