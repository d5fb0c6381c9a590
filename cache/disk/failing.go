package disk

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// fail suspends writing for a while.
func (w *writer) fail(err error) {
	first := w.cause == nil
	w.s.counts.failures.Add(1)
	w.pause = min(max(2*w.pause, w.s.opt.RetryFirst), w.s.opt.RetryMax)
	w.cause, w.retryAt = err, time.Now().Add(w.pause)
	w.s.setFailing(true)
	if errors.Is(err, errBroken) {
		w.s.report(err)
	}
	if first {
		w.s.opt.Notify(Event{Kind: EventFailing, Text: "writes to " + w.s.opt.Path + " suspended, trying again", Err: err, Mend: mendOf(err)})
	}
}

// What an operator can do about a disk that does not take writes.
const (
	mendSpace = "free space on its file system, or give the store another one or a smaller budget"
	mendDisk  = "look at the disk, its mount and the rights of the directory"
)

func mendOf(err error) string {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, errNoSpace) {
		return mendSpace
	}
	return mendDisk
}

// crowdedPause is the pause between two reports of a crowded file system: under steady writes every batch has to evict.
const crowdedPause = time.Minute

// crowded counts records that went for want of space on the file system, and tells of it now and then.
func (w *writer) crowded(u usage, evicted int64) {
	w.s.counts.crowded.Add(evicted)
	now := time.Now()
	if now.Before(w.tellCrowded) {
		return
	}
	w.tellCrowded = now.Add(crowdedPause)
	w.s.opt.Notify(Event{
		Kind: EventCrowded, Text: "the file system of " + w.s.opt.Path + " is nearly full, records make room before the budget is used up",
		Err:  fmt.Errorf("%w: %d of the budget's %d bytes can be used, %d are in use", errNoSpace, u.limit, w.s.opt.Max, u.onDisk()),
		Mend: mendSpace,
	})
}

func (w *writer) recovered() {
	if w.cause == nil {
		return
	}
	w.cause, w.pause = nil, 0
	w.s.setFailing(false)
	w.wake() // for deletions that came during the pass: while failing they wake nobody
	w.s.opt.Notify(Event{Kind: EventRecovered, Text: "writes to " + w.s.opt.Path + " work again"})
}

func (s *Store) setFailing(v bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = v
	s.wakeRoomLocked()
}

// mend replaces a database that turned out to be damaged. If it can not, it is asked to again.
func (w *writer) mend() error {
	s := w.s
	s.mu.Lock()
	why := s.broken
	s.broken = nil
	s.mu.Unlock()
	if why == nil {
		return nil
	}
	err := w.replace(why)
	if err != nil {
		s.report(why)
	}
	return err
}

// replace starts with an empty database. What is queued goes into that one.
func (w *writer) replace(why error) error {
	s := w.s
	s.dbMu.Lock()
	old := s.db
	s.db = nil
	if old != nil {
		closeBroken(old)
	}
	err := s.setAside(why)
	if err == nil {
		err = s.openIndexOrNew()
	}
	s.dbMu.Unlock()
	if err == nil {
		s.restore()
		w.publish()
		s.collectOrphans()
	}
	return err
}
