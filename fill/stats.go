package fill

// Stats are a table's gauges at one moment and its counters since it was made.
type Stats struct {
	// Held is how many leases are in office, Queued how many claims wait for their start, Waiting how many waiters have a place.
	Held, Queued, Waiting int
	// Granted counts leases and claims, Busy refusals of TryAcquire and Queue, Settled leases that their owners ended in office.
	Granted, Busy, Settled uint64
	// Lapsed counts tenures that ended without progress, Retaken lapsed leases that took their key again, Superseded leases and claims that a newer claim
	// displaced, Lost claims that turned out to be another process's.
	Lapsed, Retaken, Superseded, Lost uint64
	// SettledAgain, SettledLate and SettledOvertaken count calls of Settle that did nothing: the second one, after the tenure, and after
	// somebody newer had come or the table had closed.
	SettledAgain, SettledLate, SettledOvertaken uint64
	// RolledBack counts claims that were undone, RollbackRefused attempts to undo one that was not its owner's any more.
	RolledBack, RollbackRefused uint64
}

// counts are one shard's part of Stats.
type counts struct {
	held, queued                                int
	granted, busy, settled                      uint64
	lapsed, retaken, superseded, lost           uint64
	settledAgain, settledLate, settledOvertaken uint64
	rolledBack, rollbackRefused                 uint64
}

func (c *counts) gauge(s state, by int) {
	switch s {
	case stateHeld:
		c.held += by
	case stateQueued:
		c.queued += by
	}
}

// Stats returns the present figures. They are exact when nothing else goes on.
func (t *Table) Stats() Stats {
	var st Stats
	for i := range t.shards {
		t.shards[i].addTo(&st)
	}
	return st
}

func (s *shard) addTo(st *Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &s.counts
	st.Held += c.held
	st.Queued += c.queued
	st.Waiting += int(s.waiting.Load())
	st.Granted += c.granted
	st.Busy += c.busy
	st.Settled += c.settled
	st.Lapsed += c.lapsed
	st.Retaken += c.retaken
	st.Superseded += c.superseded
	st.SettledAgain += c.settledAgain
	st.SettledLate += c.settledLate
	st.SettledOvertaken += c.settledOvertaken
	st.Lost += c.lost
	st.RolledBack += c.rolledBack
	st.RollbackRefused += c.rollbackRefused
}
