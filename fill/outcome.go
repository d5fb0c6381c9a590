package fill

import "strconv"

// Kind says how a lease ended, or what else a waiter was woken for. The zero value is no success.
type Kind uint8

// The kinds of outcome. An owner settles with Stored, NotShareable, Failed or Abandoned; the keeper tells the others.
const (
	// Unknown is the zero value. Nobody is told it.
	Unknown Kind = iota
	// Stored means that the result is where all who waited can get it.
	Stored
	// NotShareable means that the result is for one reader only: the others go to the origin themselves, at once and in parallel.
	NotShareable
	// Failed means that the fill failed. Those who waited share the failure; nobody retries for them.
	Failed
	// Abandoned means that the owner gave up or panicked, or that the keeper closed: a successor is needed.
	Abandoned
	// TenureOver means that the holder made no progress for a tenure and lost the key: a successor is needed.
	TenureOver
	// Superseded means that a newer claim took the key, or that the holder lost its right to commit to an invalidation: what is
	// waited for now is somebody else's fill.
	Superseded
	// WaitOver is told to one waiter only: its own limit is over, the lease goes on.
	WaitOver
	// Announced is told to waiters while the lease goes on: the holder has something to show, look again.
	Announced
)

var kindNames = [...]string{
	"unknown", "stored", "not-shareable", "failed", "abandoned", "tenure-over", "superseded", "wait-over", "announced",
}

// String is the kind as it appears in logs and metrics.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "kind-" + strconv.Itoa(int(k))
}

// Lost tells whether the lease ended without a result, so that exactly one of those who waited must become the next holder.
func (k Kind) Lost() bool {
	return k == Abandoned || k == TenureOver || k == Superseded
}

// final tells whether the lease is over.
func (k Kind) final() bool {
	return k != Unknown && k != WaitOver && k != Announced
}

// ownersKind tells whether an owner may settle with k.
func (k Kind) ownersKind() bool {
	return k == Stored || k == NotShareable || k == Failed || k == Abandoned
}

// Outcome is how a lease ended, as its waiters are told. Immutable: it is a value.
type Outcome struct {
	Kind Kind
	// Err is the cause of Failed and Abandoned, shared by all who waited; it may be nil.
	Err error
}
