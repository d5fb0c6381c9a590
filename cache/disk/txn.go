package disk

import (
	"encoding/binary"
	"errors"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/swrproxy/swrproxy/cache"
)

// blockSize is the unit in which body files take room.
const blockSize = 4096

// txn is one write transaction. Its changes to the state and its list of files count only if the commit succeeds. Not safe for
// concurrent use; the writer's own.
type txn struct {
	st                           state
	meta, records, bodies, files *bbolt.Bucket
	order                        [2]*bbolt.Bucket // of records without and with a file
	unlink                       []uint64         // body files whose records are gone
	evicted                      []victim
	freedDB, freedFiles          int64  // room that evictions made, about
	buf                          []byte // a value while it is made
	arena                        []byte // what bbolt keeps until the commit
}

// arenaSize is what an arena is made of: dozens of values and chunks.
const arenaSize = 64 << 10

// keep copies parts, one after another, to where they stay until the commit.
func (t *txn) keep(parts ...[]byte) []byte {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	if n > cap(t.arena)-len(t.arena) {
		t.arena = make([]byte, 0, max(n, arenaSize))
	}
	start := len(t.arena)
	for _, p := range parts {
		t.arena = append(t.arena, p...)
	}
	return t.arena[start:len(t.arena):len(t.arena)]
}

// victim is a record that eviction removed.
type victim struct {
	hash, token uint64
	expired     bool
}

func newTxn(tx *bbolt.Tx, st state) *txn {
	t := &txn{
		st:      st,
		meta:    tx.Bucket(bucketMeta),
		records: tx.Bucket(bucketRecords),
		bodies:  tx.Bucket(bucketBodies),
		files:   tx.Bucket(bucketFiles),
		order:   [2]*bbolt.Bucket{tx.Bucket(bucketOrder), tx.Bucket(bucketFileOrder)},
	}
	// These grow at their end only: full pages waste no room.
	for _, b := range []*bbolt.Bucket{t.bodies, t.files, t.order[0], t.order[1]} {
		b.FillPercent = 1
	}
	return t
}

// save writes the state; the last thing before a commit.
func (t *txn) save() error { return t.meta.Put(keyState, t.st.encode()) }

// insert stores r, of whose key there is no record, with its body, which is in its place already unless content is not nil: then that goes
// into the database.
func (t *txn) insert(h uint64, r *cache.Record, b ref, content []byte) error {
	t.st.place++
	t.buf = appendValue(t.buf[:0], r, b, t.st.place)
	inDB := int64(len(t.buf))
	if content != nil {
		if err := t.putChunks(b.id, h, content); err != nil {
			return err
		}
	}
	if b.kind == bodyInline {
		inDB += b.size
	}
	inFile, err := t.own(h, b, content != nil)
	if err != nil {
		return err
	}
	if err := t.orderOf(b.kind).Put(key64(t.st.place), t.keep(orderEntry(h, inDB, inFile))); err != nil {
		return err
	}
	t.st.records++
	t.st.token = max(t.st.token, r.Token)
	return t.records.Put(key64(h), t.keep(t.buf))
}

// errNoBody means that the body that a record came with is not stored any more.
var errNoBody = errors.New("disk: body is gone")

// own makes h the owner of a body that is in its place, and returns how much room it takes in files.
func (t *txn) own(h uint64, b ref, written bool) (inFile int64, err error) {
	switch {
	case b.kind == bodyFile:
		inFile = blocks(b.size)
		if t.files.Get(key64(b.id)) == nil {
			t.st.fileBytes += uint64(inFile)
			// Its former record may have gone in this same transaction.
			t.unlink = slices.DeleteFunc(t.unlink, func(id uint64) bool { return id == b.id })
		}
		return inFile, t.files.Put(key64(b.id), append(key64(h), key64(uint64(b.size))...))
	case b.kind == bodyInline && !written:
		owner, ok := chunkOwner(t.bodies, b.id)
		if !ok {
			return 0, errNoBody
		}
		if owner != h {
			return 0, setChunkOwner(t.bodies, b.id, h)
		}
	}
	return 0, nil
}

// has tells whether a body is in its place and has a record.
func (t *txn) has(b ref) bool {
	if b.kind == bodyInline {
		_, ok := chunkOwner(t.bodies, b.id)
		return ok
	}
	return t.files.Get(key64(b.id)) != nil
}

// remove forgets the record of h, and its body unless that is keep or belongs to another record by now.
func (t *txn) remove(h, keep uint64) error {
	v := t.records.Get(key64(h))
	if v == nil {
		return nil
	}
	head, err := decodeHeader(v)
	if err == nil {
		if err := t.orderOf(head.body.kind).Delete(key64(head.place)); err != nil {
			return err
		}
		if head.body.id != keep {
			if err := t.removeBody(h, head.body); err != nil {
				return err
			}
		}
	} // a damaged value leaves its place and body behind: eviction comes upon them
	t.st.records--
	return t.records.Delete(key64(h))
}

func (t *txn) removeBody(h uint64, b ref) error {
	switch b.kind {
	case bodyFile:
		v := t.files.Get(key64(b.id))
		if len(v) < ownerSize || be64(v) != h {
			return nil
		}
		t.st.fileBytes -= min(uint64(blocks(b.size)), t.st.fileBytes)
		t.unlink = append(t.unlink, b.id)
		return t.files.Delete(key64(b.id))
	case bodyInline:
		if owner, ok := chunkOwner(t.bodies, b.id); !ok || owner != h {
			return nil
		}
		return deleteChunks(t.bodies, b)
	default:
		return nil
	}
}

func (t *txn) orderOf(k bodyKind) *bbolt.Bucket {
	if k == bodyFile {
		return t.order[1]
	}
	return t.order[0]
}

// orderSize is the length of an entry of an order.
const orderSize = 24

// orderEntry says whose turn a place is, and what its removal would free.
func orderEntry(h uint64, inDB, inFile int64) []byte {
	b := key64(h)
	b = binary.BigEndian.AppendUint64(b, uint64(inDB))
	return binary.BigEndian.AppendUint64(b, uint64(inFile))
}

// blocks is the room that a file of this size takes.
func blocks(size int64) int64 { return (size + blockSize - 1) / blockSize * blockSize }
