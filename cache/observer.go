package cache

import (
	"time"

	"github.com/swrproxy/swrproxy/fill"
	"github.com/swrproxy/swrproxy/policy"
)

// Observer is told what the cache did. Its methods are called on the goroutine that did it, so they must be quick,
// and must be safe for concurrent use. Events are passed by pointer to spare the hit path a copy: an observer must not keep them. It may keep their strings,
// which never change; one of a hit may keep the memory of its record and of up to a hundred others.
type Observer interface {
	// ReadDone is called once for each request, when its answer is out or given up.
	ReadDone(*ReadEvent)
	// FillStarted is called when a fill begins, FillDone when it settled: exactly one for one.
	FillStarted(*FillEvent)
	FillDone(*FillEvent)
	// Noted is called for rare things that an operator should know of.
	Noted(*Note)
}

// Result is how a request was answered; the label of metrics and log lines. A closed enum.
type Result uint8

const (
	// ResultUnknown is the zero value.
	ResultUnknown Result = iota
	// ResultHit is an answer from a fresh record.
	ResultHit
	// ResultStale is an expired record served while it is, or was about to be, refreshed.
	ResultStale
	// ResultStaleError is an expired record served because the origin failed.
	ResultStaleError
	// ResultRevalidated is a record served after the origin confirmed it.
	ResultRevalidated
	// ResultMiss is an answer that this request fetched.
	ResultMiss
	// ResultCollapsed is an answer that another request's fill fetched.
	ResultCollapsed
	// ResultPass is an answer straight from the origin, the cache not being concerned.
	ResultPass
	// ResultError is an error made by the cache: the origin failed and nothing could be served.
	ResultError
	// ResultRefused is a request that the cache itself turned down (bad request, only-if-cached without a record).
	ResultRefused
	// NumResults is the number of results.
	NumResults
)

var resultNames = [NumResults]string{
	"unknown", "hit", "stale", "stale-error", "revalidated", "miss", "collapsed", "pass", "error", "refused",
}

// String returns the word used in logs and metrics.
func (r Result) String() string {
	if r >= NumResults {
		return resultNames[ResultUnknown]
	}
	return resultNames[r]
}

// ReadEvent describes one finished request.
type ReadEvent struct {
	// Start is when the request's head was read; Took how long until the last byte of the answer was written.
	Start time.Time
	Took  time.Duration
	// Rule is the name of the rule that matched, "" if none did.
	Rule string
	// Method, Scheme, Host and Path are the request's, Query its raw query: log it only if asked to.
	Method, Scheme, Host, Path, Query string
	// Remote is the peer's address, Proto its protocol ("HTTP/1.1").
	Remote, Proto string
	// Status and Bytes are what was sent: status code and length of the body.
	Status int
	Bytes  int64
	Result Result
	// Reason is why: the same word as in Cache-Status.
	Reason policy.Reason
	// ClientGone means that the client went away before its answer was whole.
	ClientGone bool
	// Err is the cause of a ResultError.
	Err error
}

// FillEvent describes a fill. In FillStarted only Rule, Key, URL, Background and Conditional are set.
type FillEvent struct {
	Rule string
	Key  fill.Key
	// URL is what was fetched, without its query.
	URL string
	// Background means that no reader waited when it began; Conditional that it carried a validator.
	Background, Conditional bool
	// Outcome is how it ended; Status is the origin's status, 0 if there was none.
	Outcome fill.Outcome
	Status  int
	// Refreshed means that a 304 freshened the record.
	Refreshed bool
	Reason    policy.Reason
	Bytes     int64
	Took      time.Duration
	// Retry is when the next attempt may start after a failure: zero at once.
	Retry time.Duration
}

// NoteKind is what a Note is about. A closed enum.
type NoteKind uint8

const (
	// NoteUnknown is the zero value.
	NoteUnknown NoteKind = iota
	// NoteKeeper means that the lease keeper failed; reads go on without it.
	NoteKeeper
	// NoteVariants means that a key reached its bound of variants and the oldest was dropped.
	NoteVariants
	// NotePanic means that a fill panicked; Err holds the stack.
	NotePanic
	// NoteStore means that a store refused or lost a record because it is failing.
	NoteStore
	// NoteCommit means that a finished fill was not committed because something newer overtook it.
	NoteCommit
	// NoteInvalidated means that records were invalidated.
	NoteInvalidated
	// NoteTenure means that a fill said nothing for its tenure and lost its key.
	NoteTenure
)

var noteNames = [...]string{"unknown", "keeper", "variants", "panic", "store", "commit", "invalidated", "tenure"}

// String returns the note's word in logs and metrics.
func (k NoteKind) String() string {
	if int(k) >= len(noteNames) {
		return noteNames[NoteUnknown]
	}
	return noteNames[k]
}

// Note is something rare that happened beside a request.
type Note struct {
	Kind NoteKind
	Key  string
	Text string
	Err  error
	// Purge describes the purge of a NoteInvalidated, nil for other kinds.
	Purge *PurgeEvent
}

// PurgeEvent describes one finished purge.
type PurgeEvent struct {
	// By says who asked: see PurgeOptions.By. For an unsafe request it is the method and the peer's address.
	By string
	// Selector is "url", "tag", "prefix", "glob", "host" or "all", or "unsafe" for what an unsafe request invalidated (RFC 9111 §4.4).
	Selector string
	// Value is what was selected, in readable form, at most 200 bytes. For an unsafe request it is the URL without its query.
	Value string
	// Soft means that records were made stale and not removed.
	Soft bool
	// Records is how many stored responses were reached. Counted is false if the store was not walked to its end.
	Records int
	Counted bool
	// Took is the time from the request to the end.
	Took time.Duration
}

// NopObserver does nothing; embed it to observe only some events.
type NopObserver struct{}

// ReadDone does nothing.
func (NopObserver) ReadDone(*ReadEvent) {}

// FillStarted does nothing.
func (NopObserver) FillStarted(*FillEvent) {}

// FillDone does nothing.
func (NopObserver) FillDone(*FillEvent) {}

// Noted does nothing.
func (NopObserver) Noted(*Note) {}
