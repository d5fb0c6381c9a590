package disk

import (
	"bytes"
	"errors"
	"io"

	"github.com/cespare/xxhash/v2"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/swrproxy/swrproxy/cache"
)

// write carries a batch to disk: room, body files, transaction. After an error everything is as before, but for evictions.
func (w *writer) write(list []*op) error {
	items := make([]item, 0, len(list))
	for _, o := range w.s.current(list) {
		items = append(items, w.plan(o))
	}
	if err := w.makeRoom(items, 0); err != nil {
		return err
	}
	err := w.writeBodies(items)
	if err == nil {
		err = w.commitItems(items)
	}
	if err != nil {
		w.removeBodies(items)
		return err
	}
	w.s.finish(list, items)
	return nil
}

// item is a change as it goes into the database.
type item struct {
	o       *op
	ref     ref
	content []byte // an inline body to write
	file    bool   // a body file to write
	wrote   bool   // and it is written
	same    bool   // the body that is stored already will do
	gone    bool   // the body could not be read: the key is deleted instead
}

// plan decides where the body of o goes.
func (w *writer) plan(o *op) item {
	it := item{o: o}
	if o.rec == nil {
		return it
	}
	b := o.rec.Body
	switch p, inMemory := b.Bytes(); {
	case o.body != nil:
		it.ref = o.body.ref
	case b.Size() == 0:
	case inMemory && !o.fresh && w.same(&it, p):
	case b.Size() > maxInline:
		it.ref = ref{kind: bodyFile, id: w.s.ids.next(), size: b.Size()}
		it.file = true
	case inMemory:
		it.setContent(w.s, p)
	default:
		p, err := read(b)
		it.gone = err != nil
		it.setContent(w.s, p)
	}
	return it
}

// same tells whether the key's record has this very body already, as after most refreshes: then only metadata is written.
func (w *writer) same(it *item, p []byte) bool {
	r, ok := w.s.storedBody(it.o.hash)
	if !ok || r.size != int64(len(p)) || r.sum != xxhash.Sum64(p) {
		return false
	}
	have, err := read(w.s.cacheBody(r))
	if err != nil || !bytes.Equal(have, p) {
		return false
	}
	it.ref, it.same = r, true
	w.s.touched.add(it.o.hash) // not the one to evict now
	return true
}

// storedBody says where the body of the record of h is, if there is one.
func (s *Store) storedBody(h uint64) (r ref, ok bool) {
	_ = s.view(func(tx *bbolt.Tx) error { // what can not be read is written anew
		v, err := find(tx, h)
		if err != nil {
			return err
		}
		head, err := decodeHeader(v)
		r, ok = head.body, err == nil && head.body.kind != bodyNone
		return err
	})
	return r, ok
}

func (it *item) setContent(s *Store, p []byte) {
	it.content = p
	it.ref = ref{kind: bodyInline, id: s.ids.next(), size: int64(len(p)), sum: xxhash.Sum64(p)}
}

// read reads a body that lives somewhere else.
func read(b cache.Body) ([]byte, error) {
	f, err := b.Open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p := make([]byte, b.Size())
	_, err = io.ReadFull(f, p)
	return p, err
}

// needs is about how much room items take: pages are not filled to the end.
func needs(items []item) (inDB, inFiles int64) {
	for _, it := range items {
		if it.o.rec == nil || it.gone {
			continue
		}
		inDB += (it.o.rec.Cost() - it.inMemory()) * 3 / 2
		inDB += int64(len(it.content)) * 9 / 8
		if it.file {
			inFiles += blocks(it.ref.size)
		}
	}
	return inDB, inFiles
}

// inMemory is the part of the record's cost that is its body.
func (it *item) inMemory() int64 {
	p, _ := it.o.rec.Body.Bytes()
	return int64(len(p))
}

// writeBodies writes the body files of items and moves spools to their place.
func (w *writer) writeBodies(items []item) error {
	for i := range items {
		it := &items[i]
		var err error
		switch {
		case it.gone:
		case it.file:
			err = w.writeBody(it)
		case it.o.kept != nil && !it.o.kept.moved:
			if err = w.s.place(it.ref.id); err == nil {
				it.o.kept.moved = true
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) writeBody(it *item) error {
	r, err := w.s.writeFile(it.ref.id, it.o.rec.Body)
	switch {
	case errors.Is(err, errSource):
		it.gone = true
	case err != nil:
		return err
	default:
		it.ref, it.wrote = r, true
	}
	return nil
}

func (w *writer) removeBodies(items []item) {
	for _, it := range items {
		if it.wrote {
			w.s.removeBody(it.ref.id)
		}
	}
}

// growthTries is how often a batch is tried within the bound on the database file, with more evicted each time, before it may
// grow beyond: free pages may be too scattered for large values.
const growthTries = 4

// commitItems puts items into the database.
func (w *writer) commitItems(items []item) error {
	for try := int64(1); ; try++ {
		err := w.commit(try <= growthTries, func(t *txn) error { return t.apply(items) })
		if !errors.Is(err, berrors.ErrMaxSizeReached) {
			return err
		}
		if err := w.makeRoom(items, w.s.opt.Max/16*try); err != nil {
			return err
		}
	}
}

func (t *txn) apply(items []item) error {
	for _, it := range items {
		if err := t.applyOne(it); err != nil {
			return err
		}
	}
	return nil
}

func (t *txn) applyOne(it item) error {
	if it.o.note != nil {
		return t.note(it.o.note)
	}
	adopts := it.same || it.o.body != nil && (it.o.kept == nil || it.o.kept.owned)
	if it.o.rec == nil || it.gone || adopts && !t.has(it.ref) {
		return t.remove(it.o.hash, 0)
	}
	if !it.o.fresh {
		if _, err := t.drop(it.o.hash, it.ref.id); err != nil {
			return err
		}
	}
	return t.insert(it)
}
