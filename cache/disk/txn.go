package disk

import (
	"errors"
	"slices"

	"go.etcd.io/bbolt"
)

// blockSize is the unit in which body files take room.
const blockSize = 4096

// txn is one write transaction. Its changes to the state and its list of files count only if the commit succeeds. Not safe for
// concurrent use; the writer's own.
type txn struct {
	*scratch
	st                     state
	recent, records, terms groups
	termLog, journal       *bbolt.Bucket
	pending                runs // what terms lacks
	meta, bodies, files    *bbolt.Bucket
	order                  [2]*bbolt.Bucket // of records without and with a file
	unlink                 []uint64         // body files whose records are gone
	evicted                []victim
	freedDB, freedFiles    int64 // room that evictions made, about
}

// victim is a record that eviction removed.
type victim struct {
	hash, token uint64
	expired     bool
}

func newTxn(tx *bbolt.Tx, st state, pending runs, s *scratch) *txn {
	s.reset()
	t := &txn{
		scratch: s,
		st:      st,
		pending: pending,
		terms:   groups{tx.Bucket(bucketTerms), byBoth},
		termLog: tx.Bucket(bucketTermLog),
		journal: tx.Bucket(bucketJournal),
		meta:    tx.Bucket(bucketMeta),
		bodies:  tx.Bucket(bucketBodies),
		files:   tx.Bucket(bucketFiles),
		order:   [2]*bbolt.Bucket{tx.Bucket(bucketOrder), tx.Bucket(bucketFileOrder)},
	}
	t.recent, t.records = locationIndex(tx)
	// These grow at their end only: full pages waste no room.
	for _, b := range []*bbolt.Bucket{t.bodies, t.files, t.termLog, t.order[0], t.order[1]} {
		b.FillPercent = 1
	}
	return t
}

// save writes the state; the last thing before a commit.
func (t *txn) save() error { return t.meta.Put(keyState, t.st.encode()) }

// insert stores the record of it, of whose key there is none, with its body, which is in its place already unless it has content: then that
// goes into the database.
func (t *txn) insert(it item) error {
	h, r, b := it.o.hash, it.o.rec, it.ref
	if it.content != nil {
		if err := t.putChunks(b.id, h, it.content); err != nil {
			return err
		}
	}
	if err := t.own(h, b, it.content != nil); err != nil {
		return err
	}
	t.st.place++
	t.st.records++
	t.st.token = max(t.st.token, r.Token)
	t.buf = appendValue(t.buf[:0], r, b, h)
	if err := put64(t.orderOf(b.kind), t.st.place, t.keep(t.buf)); err != nil {
		return err
	}
	t.setLocation(h, locationOf(t.st.place, b.kind))
	t.list(h, it.o.terms)
	return nil
}

// errNoBody means that the body that a record came with is not stored any more.
var errNoBody = errors.New("disk: body is gone")

// own makes h the owner of a body that is in its place.
func (t *txn) own(h uint64, b ref, written bool) error {
	switch {
	case b.kind == bodyFile:
		if get64(t.files, b.id) == nil {
			t.st.fileBytes += uint64(blocks(b.size))
			// Its former record may have gone in this same transaction.
			t.unlink = slices.DeleteFunc(t.unlink, func(id uint64) bool { return id == b.id })
		}
		return t.files.Put(key64(b.id), append(key64(h), key64(uint64(b.size))...))
	case b.kind == bodyInline && !written:
		owner, ok := chunkOwner(t.bodies, b.id)
		if !ok {
			return errNoBody
		}
		if owner != h {
			return setChunkOwner(t.bodies, b.id, h)
		}
	}
	return nil
}

// has tells whether a body is in its place and has a record.
func (t *txn) has(b ref) bool {
	if b.kind == bodyInline {
		_, ok := chunkOwner(t.bodies, b.id)
		return ok
	}
	return get64(t.files, b.id) != nil
}

// locate looks up the record of h.
func (t *txn) locate(h uint64) location {
	if l, ok := t.moved[h]; ok {
		return l
	}
	return locate(t.recent, t.records, h)
}

// value returns the value at l, nil if there is none.
func (t *txn) value(l location) []byte { return get64(t.order[l&1], l.place()) }

// remove forgets the record of h, and its body unless that is keep or belongs to another record by now.
func (t *txn) remove(h, keep uint64) error {
	had, err := t.drop(h, keep)
	if err == nil && had {
		t.setLocation(h, 0)
	}
	return err
}

// drop is remove, but the index still points where the value was: the caller changes that if there was one.
func (t *txn) drop(h, keep uint64) (had bool, err error) {
	l := t.locate(h)
	if l == 0 {
		return false, nil
	}
	t.st.records--
	v := t.value(l)
	head, err := decodeHeader(v)
	if err == nil && head.hash != h {
		return true, nil // the index is damaged: this is another's value
	}
	t.unlist(h, v)
	if err == nil && head.body.id != keep {
		if err := t.removeBody(h, head.body); err != nil {
			return true, err
		}
	} // the body of a damaged value is left behind
	return true, delete64(t.order[l&1], l.place())
}

func (t *txn) removeBody(h uint64, b ref) error {
	switch b.kind {
	case bodyFile:
		v := get64(t.files, b.id)
		if len(v) < ownerSize || be64(v) != h {
			return nil
		}
		t.st.fileBytes -= min(uint64(blocks(b.size)), t.st.fileBytes)
		t.unlink = append(t.unlink, b.id)
		return delete64(t.files, b.id)
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

// blocks is the room that a file of this size takes.
func blocks(size int64) int64 { return (size + blockSize - 1) / blockSize * blockSize }
