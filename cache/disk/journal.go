package disk

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"
	"go.etcd.io/bbolt"

	"github.com/swrproxy/swrproxy/cache"
)

// invalidation is an entry of the journal.
type invalidation struct {
	cache.Invalidation
	n       uint64 // tells those with one Seq apart
	dropped bool   // a change in the queue removes it
}

// journal is what the database has of invalidations, or will have once the queue is written. Guarded by the store's mutex.
type journal struct {
	list []invalidation // in the order of their numbers
	next uint64         // n of the next
}

func (j *journal) load(list []invalidation) {
	j.list = list
	for _, inv := range list {
		j.next = max(j.next, inv.n+1)
	}
}

func (j *journal) add(inv cache.Invalidation) invalidation {
	i := invalidation{Invalidation: inv, n: j.next}
	j.next++
	at := len(j.list)
	for at > 0 && j.list[at-1].Seq > inv.Seq {
		at--
	}
	j.list = slices.Insert(j.list, at, i)
	return i
}

// drop marks those of this number, and tells whether there are any.
func (j *journal) drop(seq uint64) (any bool) {
	for i := range j.list {
		if inv := &j.list[i]; inv.Seq == seq && !inv.dropped {
			inv.dropped, any = true, true
		}
	}
	return any
}

// forget removes those that are marked and that f names.
func (j *journal) forget(f func(invalidation) bool) {
	j.list = slices.DeleteFunc(j.list, func(inv invalidation) bool { return inv.dropped && f(inv) })
}

// note is a change of the journal in the queue: what goes, then what comes.
type note struct {
	all  bool   // all go
	drop bool   // those with the number seq go
	seq  uint64 // only with drop
	add  []invalidation
}

func (n *note) op() *op {
	o := &op{note: n, cost: opOverhead}
	for _, inv := range n.add {
		o.cost += int64(len(inv.Scope)) + opOverhead
	}
	return o
}

// SaveInvalidation keeps inv over a restart; it is durable with the next Sync. It does not wait.
func (s *Store) SaveInvalidation(inv cache.Invalidation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	n := note{add: []invalidation{s.journal.add(inv)}}
	s.pushLocked(n.op())
	s.boundLocked()
}

// DropInvalidation forgets all invalidations with this number, after everything that was put and deleted before. It does not wait.
func (s *Store) DropInvalidation(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || !s.journal.drop(seq) {
		return
	}
	n := note{drop: true, seq: seq}
	s.pushLocked(n.op())
	s.boundLocked()
}

// Invalidations returns what was saved and not dropped, in the order of its numbers.
func (s *Store) Invalidations() (list []cache.Invalidation) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, inv := range s.journal.list {
		if !inv.dropped {
			list = append(list, inv.Invalidation)
		}
	}
	return list
}

// rewriteLocked puts one change into the queue that stands for all that were made of the journal.
func (s *Store) rewriteLocked() {
	s.journal.forget(func(invalidation) bool { return true })
	n := note{all: true, add: slices.Clone(s.journal.list)}
	s.pushLocked(n.op())
}

// restore brings the journal into a new database, before all else.
func (s *Store) restore() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.journal.list) > 0 {
		n := note{all: true, add: slices.Clone(s.journal.list)}
		s.queue.pushFirst(n.op())
	}
}

// noteDoneLocked is told of a change that is on disk.
func (s *Store) noteDoneLocked(n *note) {
	if n.drop {
		s.journal.forget(func(inv invalidation) bool { return inv.Seq == n.seq })
	}
}

func (t *txn) note(n *note) error {
	if n.all || n.drop {
		if err := t.dropInvalidations(n); err != nil {
			return err
		}
	}
	for _, inv := range n.add {
		if err := t.journal.Put(inv.key(), inv.value()); err != nil {
			return err
		}
		t.st.token = max(t.st.token, inv.Seq) // its number is not given again either
	}
	return nil
}

func (t *txn) dropInvalidations(n *note) error {
	var keys [][]byte
	c := t.journal.Cursor()
	k, _ := seek64(c, n.seq)
	for ; k != nil && (n.all || be64(k) == n.seq); k, _ = c.Next() {
		keys = append(keys, t.keep(k))
	}
	for _, k := range keys {
		if err := t.journal.Delete(k); err != nil {
			return err
		}
	}
	return nil
}

const (
	invalidationKeySize = 16
	// invalidationSoft is a bit of an invalidation's first byte behind its checksum.
	invalidationSoft = 1
)

func (inv *invalidation) key() []byte { return append(key64(inv.Seq), key64(inv.n)...) }

// value encodes inv, see docs/disk-format.md.
func (inv *invalidation) value() []byte {
	v := make([]byte, 9, 64+len(inv.Scope))
	if inv.Soft {
		v[8] = invalidationSoft
	}
	v = append(appendTime(v, inv.At), inv.Scope...)
	binary.BigEndian.PutUint64(v, inv.sum(v))
	return v
}

// sum is the checksum of a value with its key.
func (inv *invalidation) sum(v []byte) uint64 {
	d := xxhash.New()
	_, _ = d.Write(inv.key()) // neither fails
	_, _ = d.Write(v[8:])
	return d.Sum64()
}

// loadJournal reads all invalidations. One that is damaged is an error: what it should keep away could come back.
func loadJournal(tx *bbolt.Tx) (list []invalidation, err error) {
	err = tx.Bucket(bucketJournal).ForEach(func(k, v []byte) error {
		inv, ok := decodeInvalidation(k, v)
		if !ok {
			return fmt.Errorf("%w: invalidation %x", errBroken, k)
		}
		list = append(list, inv)
		return nil
	})
	return list, err
}

func decodeInvalidation(k, v []byte) (inv invalidation, ok bool) {
	if len(k) != invalidationKeySize || len(v) < 9 {
		return inv, false
	}
	inv.Seq, inv.n = be64(k), be64(k[8:])
	d := decoder{rest: string(v[8:])}
	inv.Soft = d.byte()&invalidationSoft != 0
	inv.At, inv.Scope = d.time(), d.rest
	return inv, !d.bad && be64(v) == inv.sum(v)
}

var _ cache.Journal = (*Store)(nil)
