package disk

import (
	"errors"
	"os"

	"go.etcd.io/bbolt"

	"github.com/swrproxy/swrproxy/cache"
)

// Get returns the record of this full key. A small body is read and checked with it; a body file is checked when it is opened.
func (s *Store) Get(key string) (*cache.Record, bool) {
	h := s.hash(key)
	if r, known := s.queued(h); known {
		if r == nil || r.Key != key {
			return nil, false
		}
		return r, true
	}
	r, err := s.read(h, key, true)
	if err != nil || r == nil {
		return nil, false
	}
	s.touched.add(h)
	return r, true
}

// Touch notes that the record of this key was used, by a tier in front.
func (s *Store) Touch(key string) { s.touched.add(s.hash(key)) }

// queued looks in the queue: known with a nil record means that the key was deleted.
func (s *Store) queued(h uint64) (r *cache.Record, known bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	o, ok := s.queue.latest[h]
	if s.closed || !ok {
		return nil, s.closed
	}
	return o.rec, true
}

// read looks in the database: nil without an error is a miss. Damage is dealt with here.
func (s *Store) read(h uint64, key string, load bool) (r *cache.Record, err error) {
	if s.absent.has(h) {
		return nil, nil
	}
	var head header
	seen, none := s.removals.Load(), false
	err = s.view(func(tx *bbolt.Tx) error {
		v, err := find(tx, h)
		if none = v == nil && err == nil; err != nil || none {
			return err
		}
		if r, head, err = decodeValue(v); err != nil {
			return err
		}
		if r.Key != key || !s.countsToken(r.Token) {
			r = nil
			return nil
		}
		r.Body, err = s.attach(tx, head.body, load)
		return err
	})
	switch {
	case none:
		s.noteAbsent(h, seen)
	case errors.Is(err, errDamaged), errors.Is(err, os.ErrNotExist):
		s.discard(h, head.token, err)
	}
	return r, err
}

// attach makes the body of a record: in memory if it is small and load is set, else one that is opened later.
func (s *Store) attach(tx *bbolt.Tx, b ref, load bool) (cache.Body, error) {
	if b.kind != bodyInline || !load {
		return s.cacheBody(b), nil
	}
	p, err := inline(tx, b)
	return cache.MemoryBody(p), err
}

// walkPage is how many records Walk lists in one transaction.
const walkPage = 128

// Walk calls f with each record until it returns false; bodies are opened only by who wants them. No lock and no transaction is
// held meanwhile.
func (s *Store) Walk(f func(*cache.Record) bool) {
	queued := s.waiting()
	for h, r := range queued {
		if r = s.latest(h, r); r != nil && !f(r) {
			return
		}
	}
	for from := uint64(0); ; {
		page, next, more := s.page(from)
		for _, e := range page {
			if _, seen := queued[e.hash]; seen {
				continue
			}
			if r, known := s.queued(e.hash); known {
				e.rec = r // replaced or deleted since the page was read; it must not slip through
			}
			if e.rec != nil && !f(e.rec) {
				return
			}
		}
		if !more {
			return
		}
		from = next
	}
}

func (s *Store) waiting() map[uint64]*cache.Record {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := make(map[uint64]*cache.Record, len(s.queue.latest))
	if s.closed {
		return list
	}
	for h, o := range s.queue.latest {
		list[h] = o.rec
	}
	return list
}

// latest returns what took the place of r, which was queued: r itself if it is queued still or was written, nil if it is gone.
func (s *Store) latest(h uint64, r *cache.Record) *cache.Record {
	for {
		now, known := s.queued(h)
		if known || r == nil {
			return now
		}
		if f, _ := s.peek(h, r.Key); f.ok && f.token >= r.Token {
			return r
		}
		if _, known := s.queued(h); !known {
			return nil
		} // it came back meanwhile: peek had nothing to say
	}
}

type entry struct {
	hash uint64
	rec  *cache.Record
}

// page lists records from a hash on. Damaged ones are left to Get.
func (s *Store) page(from uint64) (list []entry, next uint64, more bool) {
	err := s.view(func(tx *bbolt.Tx) error {
		for h, l := range locations(tx, from) {
			if more = len(list) == walkPage; more {
				next = h
				return nil
			}
			if r := s.listed(tx, h, l); r != nil {
				list = append(list, entry{h, r})
			}
		}
		return nil
	})
	return list, next, more && err == nil
}

// listed is the record of h as Walk lists it, nil if it is damaged or does not count.
func (s *Store) listed(tx *bbolt.Tx, h uint64, l location) *cache.Record {
	v, err := valueAt(tx, l, h)
	if err != nil {
		return nil
	}
	r, head, err := decodeValue(v)
	if err != nil || !s.countsToken(head.token) {
		return nil
	}
	r.Body = s.cacheBody(head.body)
	return r
}

// MaxToken is the highest token of any record that was ever committed here. A sequence that goes on from it never gives a stored
// record's number again.
func (s *Store) MaxToken() uint64 { return uint64(s.gauges.token.Load()) }

// Stats returns the store's counters and gauges. Records and Bytes are what the database holds; after Sync that is all, after Close
// nothing.
func (s *Store) Stats() cache.StoreStats {
	st := s.counted()
	if !s.isClosed() {
		st.Records = s.gauges.records.Load()
		st.Bytes = s.gauges.bytes.Load() + s.gauges.spooled.Load()
	}
	return st
}

func (s *Store) counted() cache.StoreStats {
	return cache.StoreStats{
		Max:      s.opt.Max,
		Evicted:  s.counts.evicted.Load(),
		Rejected: s.counts.rejected.Load() + s.counts.dropped.Load(),
		Expired:  s.counts.expired.Load(),
		Purged:   s.counts.purged.Load(),
		Damaged:  s.counts.damaged.Load(),
	}
}

// Metrics are what a disk store counts beside Stats. All count from Open.
type Metrics struct {
	// Queued are the bytes that wait to be written; Dropped the writes that the queue had no room for.
	Queued, Dropped int64
	// Failing is whether writes are suspended now; Failures how often one failed.
	Failing  bool
	Failures int64
	// Limit is how many bytes could be used when room was last made: the budget, or less where the file system has less. Crowded are the
	// records that were evicted for the difference; they count as evicted, too.
	Limit, Crowded int64
	// Commits counts transactions; Orphans files without a record that were removed.
	Commits, Orphans int64
	// FileBytes is the size of the database file, FreeBytes the part of it that is free for reuse.
	FileBytes, FreeBytes int64
}

// Metrics returns the store's own figures.
func (s *Store) Metrics() Metrics {
	m := Metrics{
		Dropped:  s.counts.dropped.Load(),
		Failures: s.counts.failures.Load(),
		Limit:    s.gauges.limit.Load(),
		Crowded:  s.counts.crowded.Load(),
		Commits:  s.counts.commits.Load(),
		Orphans:  s.counts.orphans.Load(),
	}
	s.mu.RLock()
	m.Queued, m.Failing = s.queue.bytes, s.failing
	s.mu.RUnlock()
	m.FileBytes, m.FreeBytes = s.fileSizes()
	return m
}

func (s *Store) fileSizes() (size, free int64) {
	_ = s.view(func(tx *bbolt.Tx) error { // zero once closed
		st := tx.DB().Stats()
		size = tx.Size()
		free = int64(st.FreePageN+st.PendingPageN) * int64(tx.DB().Info().PageSize)
		return nil
	})
	return size, free
}
