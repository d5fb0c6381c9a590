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
	// Remote carries the claims to other processes. Nil means that there are none. With a Remote the tokens come from it.
	Remote Remote
	// Poll is how often another process's claim is looked at again, both by those who wait for it and by those who found it busy. 0 means 50 ms.
	Poll time.Duration
}

// defaultPoll is well below what a reader notices and far above what a look at a claim costs.
const defaultPoll = 50 * time.Millisecond

// defaultShards keeps 8 goroutines apart in more than nine of ten moments.
const defaultShards = 64

// Table grants leases to the goroutines of one process. Safe for concurrent use.
type Table struct {
	tenure   time.Duration
	sequence *Sequence
	seed     maphash.Seed
	epoch    time.Time
	shards   []shard
	remote   Remote
	poll     time.Duration
}

// New returns an empty table.
func New(o Options) *Table {
	if o.Tenure == 0 {
		o.Tenure = DefaultTenure
	}
	if o.Poll <= 0 {
		o.Poll = defaultPoll
	}
	if o.Sequence == nil {
		o.Sequence = NewSequence(0)
	}
	t := &Table{
		tenure: o.Tenure, sequence: o.Sequence, seed: maphash.MakeSeed(), epoch: time.Now(),
		shards: make([]shard, shardCount(o.Shards)), remote: o.Remote, poll: o.Poll,
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

// TryAcquire takes key if it is free. It returns ErrBusy if somebody has the key, without leaving a trace or allocating, and ErrClosed after Close.
// It never blocks, but for the I/O of a Remote when the key is free in this process; an error of the Remote is returned.
func (t *Table) TryAcquire(key Key) (*Lease, error) {
	s, hash := t.locate(key)
	s.mu.Lock()
	old, err := s.freeLocked(key, hash)
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	l := s.takeLocked(old, key, hash, stateHeld, fromNow)
	s.mu.Unlock()
	return s.granted(l, false, stateHeld)
}

// freeLocked returns ErrBusy if somebody has key, else the lapsed lease that may stand there.
func (s *shard) freeLocked(key Key, hash uint32) (lapsed *Lease, err error) {
	if s.closed {
		return nil, ErrClosed
	}
	old := s.index.get(key, hash)
	if old != nil && old.claimed() {
		s.counts.busy++
		return nil, ErrBusy
	}
	return old, nil
}

// takeLocked grants a key that is free, though a lapsed lease may stand there: that one has now lost it.
func (s *shard) takeLocked(old *Lease, key Key, hash uint32, to state, until int64) *Lease {
	if old != nil {
		s.endLocked(old, stateLost, Outcome{}) // owner and waiters were told when it lapsed
	}
	l := s.grantLocked(key, hash, to, until)
	l.setDisplaced(old)
	return l
}

// Supersede takes key, whoever has it: a forced refresh. The present holder's context ends with ErrSuperseded and its commit is
// refused; its waiters are woken with Superseded. An owner whose start then fails calls Rollback. The error is ErrClosed, or one of the Remote.
func (t *Table) Supersede(key Key) (*Lease, error) {
	return t.supersede(key, stateHeld, fromNow)
}

func (t *Table) supersede(key Key, to state, until int64) (*Lease, error) {
	s, hash := t.locate(key)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, ErrClosed
	}
	old := s.index.get(key, hash)
	e := s.displaceLocked(old)
	e.grip = nil // the remote claim is replaced, not given up
	l := s.grantLocked(key, hash, to, until)
	l.queued = to == stateQueued
	l.setDisplaced(old)
	s.mu.Unlock()
	e.tell()
	return s.granted(l, true, to)
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
	if l == nil || l.token >= token || l.is() == stateForeign {
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
	for _, timer := range []*time.Timer{s.timer, s.rush.timer} {
		if timer != nil {
			timer.Stop()
		}
	}
	var all []*Lease
	s.index.all(func(l *Lease) { all = append(all, l) })
	for _, l := range all {
		ended = append(ended, s.endLocked(l, stateClosed, Outcome{Kind: Abandoned, Err: ErrClosed}))
	}
	return ended
}
