package fill

import (
	"sync/atomic"
	"time"
)

// rush is how a shard saves reading the clock for each lease while many are taken, which costs a third of taking and settling one. The
// leases of a rush are listed as fresh, and a timer, once in a rushSpan, gives those that are still held their deadline. So a tenure is never
// shorter than it should be, and during a rush up to a hundredth longer. Guarded by the shard's mutex.
type rush struct {
	on      bool
	fresh   []*Lease // held, without deadline yet; Lease.place is the index, counted down from −1
	granted int      // since began, or since the timer was set
	began   int64
	timer   *time.Timer // made with the first rush
}

// rushGrants within one rushSpan make a rush.
const rushGrants = 32

// rushSpan is how much longer the tenure of a lease taken in a rush may be.
func (t *Table) rushSpan() time.Duration {
	return t.tenure / 100
}

// beginTenureLocked starts the tenure of a new lease.
func (s *shard) beginTenureLocked(l *Lease) {
	if s.rush.on {
		s.rush.granted++
		s.rush.add(l)
		return
	}
	if s.table.tenure < 0 {
		l.until = never
		return
	}
	now := s.table.now()
	l.until = now + int64(s.table.tenure)
	s.watchLocked(l, l.until)
	s.noticeRushLocked(now)
}

// noticeRushLocked counts a lease that was taken now.
func (s *shard) noticeRushLocked(now int64) {
	r := &s.rush
	if now-r.began > int64(s.table.rushSpan()) {
		r.began, r.granted = now, 0
	}
	r.granted++
	if r.granted < rushGrants || s.closed {
		return
	}
	r.on, r.granted = true, 0
	if r.timer == nil {
		r.timer = time.AfterFunc(s.table.rushSpan(), s.stampFresh)
		return
	}
	r.timer.Reset(s.table.rushSpan())
}

func (r *rush) add(l *Lease) {
	r.fresh = append(r.fresh, l)
	l.place = -int32(len(r.fresh))
}

func (r *rush) remove(l *Lease) {
	i, last := int(-l.place)-1, len(r.fresh)-1
	l.place = 0
	moved := r.fresh[last]
	r.fresh[last] = nil
	r.fresh = r.fresh[:last]
	if i < last {
		r.fresh[i] = moved
		moved.place = -int32(i + 1)
	}
	if last == 0 && cap(r.fresh) > 1024 {
		r.fresh = nil
	}
}

// stampFresh gives all fresh leases their deadline, and ends the rush if few came lately. It runs in the rush's timer's goroutine.
func (s *shard) stampFresh() {
	for s.stampSome() {
	}
}

func (s *shard) stampSome() (more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &s.rush
	if len(r.fresh) > 0 {
		end := s.table.tenureEnd()
		for range min(len(r.fresh), expireBatch) {
			s.stampLocked(r.fresh[len(r.fresh)-1], end)
		}
		return true
	}
	if r.granted < rushGrants || s.closed {
		r.on, r.granted, r.began = false, 0, s.table.now()
		return false
	}
	r.granted = 0
	r.timer.Reset(s.table.rushSpan())
	return false
}

// stampLocked gives one fresh lease its deadline, unless progress has already.
func (s *shard) stampLocked(l *Lease, end int64) {
	s.rush.remove(l)
	atomic.CompareAndSwapInt64(&l.until, 0, end)
	s.watchLocked(l, l.end())
}

// unwatchLocked takes l from where deadlines are kept.
func (s *shard) unwatchLocked(l *Lease) {
	if l.place < 0 {
		s.rush.remove(l)
		return
	}
	s.due.remove(l)
}
