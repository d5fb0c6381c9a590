package disk

import (
	"encoding/binary"
	"fmt"
	"os"

	"github.com/cespare/xxhash/v2"
	"go.etcd.io/bbolt"
)

const (
	// maxInline is the size in bytes up to which a body lives in the database.
	maxInline = 64 << 10
	// chunkSize is how many bytes of a body one value holds, the owner included: two values fill a page of 4 KiB. So no value needs a
	// run of free pages, and the file does not grow because free pages are scattered.
	chunkSize = 2012
	// ownerSize is what stands before a body's first byte: the hash of the key whose record it belongs to.
	ownerSize = 8
)

// chunkKeySize is the length of a chunk's database key.
const chunkKeySize = 10

// chunkKey is the database key of a body's nth chunk.
func chunkKey(id uint64, n int) []byte {
	b := make([]byte, chunkKeySize)
	binary.BigEndian.PutUint64(b, id)
	binary.BigEndian.PutUint16(b[8:], uint16(n))
	return b
}

// chunks is how many chunks a body of this size has.
func chunks(size int64) int { return int((ownerSize + size + chunkSize - 1) / chunkSize) }

// putChunks stores a body that belongs to the record of hash owner.
func (t *txn) putChunks(id, owner uint64, content []byte) error {
	head := key64(owner)
	for n := 0; n == 0 || len(content) > 0; n++ {
		k := min(len(content), chunkSize-len(head))
		if err := t.bodies.Put(chunkKey(id, n), t.keep(head, content[:k])); err != nil {
			return err
		}
		head, content = nil, content[k:]
	}
	return nil
}

func deleteChunks(b *bbolt.Bucket, r ref) error {
	for n := range chunks(r.size) {
		if err := b.Delete(chunkKey(r.id, n)); err != nil {
			return err
		}
	}
	return nil
}

// chunkOwner returns the owner of a body, and whether there is one.
func chunkOwner(b *bbolt.Bucket, id uint64) (owner uint64, ok bool) {
	v := b.Get(chunkKey(id, 0))
	if len(v) < ownerSize {
		return 0, false
	}
	return be64(v), true
}

func setChunkOwner(b *bbolt.Bucket, id, owner uint64) error {
	v := b.Get(chunkKey(id, 0))
	return b.Put(chunkKey(id, 0), append(key64(owner), v[ownerSize:]...))
}

// inline copies a body out of the database and checks it.
func inline(tx *bbolt.Tx, r ref) ([]byte, error) {
	if r.size > maxInline {
		return nil, fmt.Errorf("%w: body of %d bytes in the database", errDamaged, r.size)
	}
	p := make([]byte, 0, ownerSize+r.size)
	c := tx.Bucket(bucketBodies).Cursor()
	k, v := c.Seek(chunkKey(r.id, 0))
	for n := range chunks(r.size) {
		if string(k) != string(chunkKey(r.id, n)) {
			if n == 0 {
				return nil, os.ErrNotExist
			}
			return nil, fmt.Errorf("%w: chunk %d of body is missing", errDamaged, n)
		}
		p = append(p, v...)
		k, v = c.Next()
	}
	if int64(len(p)) != ownerSize+r.size {
		return nil, fmt.Errorf("%w: body of %d bytes, want %d", errDamaged, len(p)-ownerSize, r.size)
	}
	if p = p[ownerSize:]; xxhash.Sum64(p) != r.sum {
		return nil, fmt.Errorf("%w: checksum of body", errDamaged)
	}
	return p, nil
}
