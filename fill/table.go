package fill

import (
	"context"
	"hash/maphash"
	"math"
	"time"
)

// DefaultTenure is the tenure of a table whose options name none.
const DefaultTenure = 10 * time.Second

// never is the deadline of a lease without tenure.
const never = math.MaxInt64

// rememberTenures is how long, in tenures, a lease that nobody settled and nobody took over may still commit. After that the table forgets
// it and its commit is refused, so that fills that hang for ever leave nothing behind.
const rememberTenures = 64

// Options are the settings of a Table. The zero value is usable.
type Options struct {
	// Tenure is how long a holder keeps its key without progress. 0 means 10 s, negative for ever.
	Tenure time.Duration
	// Sequence gives the tokens. Nil means one of the table's own, from 1.
	Sequence *Sequence
	// Shards is into how many parts, each with its own mutex, the keys are spread, rounded up to a power of two. 0 means 64.
	Shards int
}

// defaultShards keeps 8 goroutines apart in more than nine of ten moments.
const defaultShards = 64

// Table grants leases to the goroutines of one process. Safe for concurrent use.
type Table struct {
	tenure   time.Duration
	sequence *Sequence
	seed     maphash.Seed
	epoch    time.Time
	shards   []shard
}

// New returns an empty table.
func New(o Options) *Table {
	if o.Tenure == 0 {
		o.Tenure = DefaultTenure
	}
	if o.Sequence == nil {
		o.Sequence = NewSequence(0)
	}
	t := &Table{
		tenure: o.Tenure, sequence: o.Sequence, seed: maphash.MakeSeed(), epoch: time.Now(),
		shards: make([]shard, shardCount(o.Shards)),
	}
	for i := range t.shards {
		t.shards[i].table = t
	}
	return t
}

func shardCount(want int) int {
	if want <= 0 {
		return defaultShards
	}
	n := 1
	for n < want {
		n *= 2
	}
	return n
}

// now is the table's time: nanoseconds since it was made, by the monotonic clock.
func (t *Table) now() int64 {
	return int64(time.Since(t.epoch))
}

// tenureEnd is when a tenure that starts now ends.
func (t *Table) tenureEnd() int64 {
	if t.tenure < 0 {
		return never
	}
	return t.now() + int64(t.tenure)
}

func (t *Table) remember() int64 {
	return rememberTenures * int64(t.tenure)
}

// locate returns the key's shard and its hash in there.
func (t *Table) locate(key Key) (*shard, uint32) {
	h := key.hash(t.seed)
	return &t.shards[h&uint64(len(t.shards)-1)], uint32(h >> 32)
}

// TryAcquire takes key if it is free. It never blocks. It returns ErrBusy if somebody has the key, without leaving a trace or allocating, and
// ErrClosed after Close.
func (t *Table) TryAcquire(key Key) (*Lease, error) {
	s, hash := t.locate(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	old := s.index.get(key, hash)
	if old != nil && old.claimed() {
		s.counts.busy++
		return nil, ErrBusy
	}
	return s.takeLocked(old, key, hash), nil
}

// takeLocked grants a key that is free, though a lapsed lease may stand there: that one has now lost it.
func (s *shard) takeLocked(old *Lease, key Key, hash uint32) *Lease {
	if old != nil {
		s.endLocked(old, stateLost, Outcome{}) // owner and waiters were told when it lapsed
	}
	l := s.grantLocked(key, hash, stateHeld, s.table.tenureEnd())
	l.displaced = old
	return l
}

// Supersede takes key, whoever has it: a forced refresh. The present holder's context ends with ErrSuperseded and its commit is
// refused; its waiters are woken with Superseded. An owner whose start then fails calls Rollback. The only error is ErrClosed.
func (t *Table) Supersede(key Key) (*Lease, error) {
	s, hash := t.locate(key)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, ErrClosed
	}
	old := s.index.get(key, hash)
	e := s.displaceLocked(old)
	l := s.grantLocked(key, hash, stateHeld, t.tenureEnd())
	l.displaced = old
	s.mu.Unlock()
	e.tell()
	return l, nil
}

// Displace ends the right to commit of whoever has key, without taking the key: an invalidation. The holder's context ends with ErrSuperseded
// and its waiters are woken with Superseded. It tells whether there was anybody.
func (t *Table) Displace(key Key) bool {
	return t.DisplaceBefore(key, math.MaxUint64)
}

// DisplaceBefore is Displace for holders whose token is below token: a fill that began after an invalidation is not hit by it.
func (t *Table) DisplaceBefore(key Key, token uint64) bool {
	s, hash := t.locate(key)
	s.mu.Lock()
	l := s.index.get(key, hash)
	if l == nil || l.token >= token {
		l.forgetBefore(token)
		s.mu.Unlock()
		return false
	}
	e := s.displaceLocked(l)
	s.mu.Unlock()
	e.tell()
	return true
}

// Close ends every lease and claim with ErrClosed and wakes every waiter with Abandoned. Whatever comes later gets ErrClosed. It does
// not wait for owners; it returns nil, also when called again.
func (t *Table) Close(context.Context) error {
	for i := range t.shards {
		t.shards[i].close()
	}
	return nil
}

func (s *shard) close() {
	for _, e := range s.endAll() {
		e.tell()
	}
}

func (s *shard) endAll() (ended []ending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	var all []*Lease
	s.index.all(func(l *Lease) { all = append(all, l) })
	for _, l := range all {
		ended = append(ended, s.endLocked(l, stateClosed, Outcome{Kind: Abandoned, Err: ErrClosed}))
	}
	return ended
}
