package fill

import "errors"

// ErrElsewhere is the Err of the Abandoned that waiters are told when another process's claim on their key ended. What became of
// that fill is not known here: look again.
var ErrElsewhere = errors.New("fill: another process's claim ended")

// Remote carries a table's claims to where other processes see them. A table with a Remote first reserves a key among its own
// goroutines and then takes it from the Remote, so a Remote sees one taker of a key at a time from this process. Its methods may block on
// I/O; no mutex of the table is held then.
type Remote interface {
	// Take claims key for this process. It returns ErrBusy, or an error that wraps it, if another process has the key and newer is not set; with
	// newer it displaces whoever has it. A claim that this process left behind is replaced. The token is above those of all earlier claims on key by any
	// process, and above what the table's sequence gave out. lost is to be called, at most once and without locks, if the claim turns
	// out to be somebody else's.
	Take(key Key, newer bool, lost func()) (grip Grip, token uint64, err error)
	// Busy tells whether another process has key. The table asks from time to time while readers wait for such a claim.
	Busy(key Key) bool
}

// Grip is this process's hold on one remote claim.
type Grip interface {
	// Check returns ErrLeaseLost if the claim is somebody else's now.
	Check() error
	// Retake puts a lapsed claim in office again, or returns ErrLeaseLost if somebody else had it since.
	Retake() error
	// Lapse leaves the claim for anybody to take, and recognisable for Check and Retake while nobody did.
	Lapse() error
	// Release removes the claim. It returns ErrLeaseLost if the claim is somebody else's now, and changes nothing then.
	Release() error
	// Rollback is Release, but puts back what the claim displaced: another process's claim, or old, if that is not nil. undone are claims of this process
	// between the two, the newest first, which are to be rolled back too: what they displaced counts.
	Rollback(undone []Grip, old Grip) error
}

// take turns a reserved lease into one in office as to, or takes it away again.
func (s *shard) take(l *Lease, newer bool, to state) error {
	grip, token, err := s.table.remote.Take(l.key, newer, func() { s.lose(l) })
	s.mu.Lock()
	if was := l.is(); was != stateTaking {
		s.mu.Unlock()
		if grip != nil {
			_ = grip.Release() // the newer claim's or nobody's
		}
		return overtaken(was)
	}
	if err == nil && l.seen().robbed {
		err = ErrBusy
	}
	if err == nil {
		l.tied().grip, l.token = grip, token
		s.setLocked(l, to)
		s.counts.granted++
		s.watchLocked(l, l.end())
		s.mu.Unlock()
		return nil
	}
	e := s.notTakenLocked(l, err)
	s.mu.Unlock()
	e.tell()
	return err
}

// overtaken is what a taker is told whose reservation was ended by somebody else meanwhile.
func overtaken(was state) error {
	if was == stateClosed {
		return ErrClosed
	}
	return ErrBusy
}

// notTakenLocked makes a place of waiters of a reservation whose claim another process has, and undoes one that failed otherwise.
func (s *shard) notTakenLocked(l *Lease, err error) ending {
	if errors.Is(err, ErrBusy) {
		s.counts.busy++
		s.setLocked(l, stateForeign)
		l.setDisplaced(nil)
		s.pollLaterLocked(l)
		return ending{}
	}
	e := s.endLocked(l, stateSettled, Outcome{Kind: Abandoned, Err: err})
	s.restoreDisplacedLocked(l, &e)
	return e
}

func (s *shard) pollLaterLocked(l *Lease) {
	l.setEnd(s.table.now() + int64(s.table.poll))
	s.watchLocked(l, l.end())
}

// pollForeign looks whether another process's claim, for which readers wait here, is over.
func (s *shard) pollForeign(l *Lease) {
	busy := s.table.remote.Busy(l.key)
	s.mu.Lock()
	if l.is() != stateForeign {
		s.mu.Unlock()
		return
	}
	if busy {
		s.pollLaterLocked(l)
		s.mu.Unlock()
		return
	}
	e := s.endLocked(l, stateSettled, Outcome{Kind: Abandoned, Err: ErrElsewhere})
	s.mu.Unlock()
	e.tell()
}

// lose ends a lease whose claim is somebody else's now.
func (s *shard) lose(l *Lease) {
	s.mu.Lock()
	switch l.is() {
	case stateHeld, stateQueued, stateLapsed:
	case stateTaking:
		l.tied().robbed = true
		s.mu.Unlock()
		return
	default:
		s.mu.Unlock()
		return
	}
	e := s.endLocked(l, stateLost, Outcome{Kind: Abandoned, Err: ErrLeaseLost})
	e.grip = nil
	s.counts.lost++
	s.mu.Unlock()
	e.tell()
}

// retake takes the claim of a lapsed lease again, for an owner who makes progress after all.
func (s *shard) retake(l *Lease, to state) error {
	err := l.ties.grip.Retake()
	s.mu.Lock()
	if was := l.is(); was != stateTaking {
		s.mu.Unlock()
		return was.cause()
	}
	if err == nil && l.seen().robbed {
		err = ErrLeaseLost
	}
	if err == nil {
		s.retakeLocked(l, to, s.table.tenureEnd())
		s.mu.Unlock()
		return nil
	}
	s.setLocked(l, stateHeld) // so that lose takes it
	s.mu.Unlock()
	s.lose(l)
	return err
}
