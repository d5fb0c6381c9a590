package disk

import (
	"fmt"
	"time"
)

// Options are what a [Store] is made of.
type Options struct {
	// Path is the store's directory. It is made if it does not exist; nothing else may live in it. Required.
	Path string
	// Max is the budget in bytes for everything in the directory. 0 means 1 GiB; less than 1 MiB is an error.
	Max int64
	// Queue bounds the bytes that wait to be written. When it is full the oldest waiting write is dropped. 0 means 32 MiB.
	Queue int64
	// Linger is how long the writer lets changes gather after the first before it commits. 0 means 200 ms, negative not at all.
	Linger time.Duration
	// RetryFirst and RetryMax bound the pause after a failed write: it starts at First and doubles up to Max. 0 means 1 s and 60 s.
	RetryFirst, RetryMax time.Duration
	// LockWait is how long Open waits for another process to let the path go. 0 means 1 s.
	LockWait time.Duration
	// Notify is told of rare things that an operator should know of. It is called on a goroutine of the store, must return soon and
	// must not call the store. Nil means nobody is told.
	Notify func(Event)

	// changes is how many changes may wait before Delete waits for the writer, or a failing store gives up remembering each. 0 means
	// 65,536; only tests set it.
	changes int
	// fault makes the store fail on purpose, in tests. Nil does not.
	fault func(fault) error
	// space asks a path's file system. Nil does; only tests set it.
	space func(path string) space
}

const minMax = 1 << 20

func (o *Options) setDefaults() error {
	if o.Path == "" {
		return fmt.Errorf("disk: Options.Path is empty")
	}
	if o.Max == 0 {
		o.Max = 1 << 30
	}
	if o.Max < minMax {
		return fmt.Errorf("disk: budget of %d bytes is too small, need %d", o.Max, minMax)
	}
	setDefault(&o.Queue, 32<<20)
	setDefault(&o.Linger, 200*time.Millisecond)
	setDefault(&o.RetryFirst, time.Second)
	setDefault(&o.RetryMax, time.Minute)
	setDefault(&o.LockWait, time.Second)
	setDefault(&o.changes, 64<<10)
	if o.Notify == nil {
		o.Notify = func(Event) {}
	}
	if o.fault == nil {
		o.fault = func(fault) error { return nil }
	}
	if o.space == nil {
		o.space = spaceOf
	}
	return nil
}

func setDefault[T int | int64 | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// EventKind is what an [Event] is about. A closed enum.
type EventKind uint8

const (
	// EventUnknown is the zero value.
	EventUnknown EventKind = iota
	// EventFailing means that a write failed and the store takes no more for a while. Told once until it recovers.
	EventFailing
	// EventRecovered means that writes work again.
	EventRecovered
	// EventQuarantined means that the database could not be read and was moved aside; the store goes on empty.
	EventQuarantined
	// EventOrphans means that files without a record were removed after a start.
	EventOrphans
	// EventDamaged means that a record or body did not match its checksum and was dropped.
	EventDamaged
	// EventCrowded means that records were evicted though the budget had room: the file system had none. Told once a minute at most.
	EventCrowded
	// EventUpgraded means that Open made a database of an earlier version one of the present.
	EventUpgraded
)

var eventNames = [...]string{"unknown", "failing", "recovered", "quarantined", "orphans", "damaged", "crowded", "upgraded"}

// String returns the event's word in logs and metrics.
func (k EventKind) String() string {
	if int(k) >= len(eventNames) {
		return eventNames[EventUnknown]
	}
	return eventNames[k]
}

// Event is something rare that an operator should know of.
type Event struct {
	Kind EventKind
	// Text says what happened, naming the path.
	Text string
	// Err is the cause, if there is one.
	Err error
	// Mend says what an operator can do; "" if there is nothing.
	Mend string
}

// fault is a place where a test can make the store fail.
type fault uint8

const (
	faultWrite  fault = iota // before bytes of a body file are written
	faultSync                // before a body file is synced
	faultRename              // before a body file takes its place
	faultCommit              // before a transaction is committed
)
