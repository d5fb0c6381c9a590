package cache

import (
	"context"
	"io"
	"net/http"
	"net/textproto"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/swrproxy/swrproxy/fill"
	"github.com/swrproxy/swrproxy/policy"
)

// flight is one fill under way: who owns what.
//
// The fill's goroutine, at first perhaps that of its reader, owns the exchange and writes head and spool. Readers hold a flight only between enter and leave. Everything in
// head is written before headReady is closed and not changed after it. The lease belongs to the fill's goroutine.
type flight struct {
	c     *Cache
	rule  *rule
	key   fill.Key
	lease *fill.Lease // nil for a reader's private fetch
	token uint64
	// ticket has the token; it is open from enroll until nothing can be stored any more.
	ticket ticket
	// primary is the record key before Vary.
	primary string
	target  policy.Target
	preq    policy.Request
	req     *http.Request
	via     upstream
	// base is the stored response that a conditional fill confirms, nil if there is none.
	base     *Record
	baseLife policy.Life
	// blank means that nothing stood under the primary key when its version was this.
	blank      bool
	version    uint64
	background bool
	startedAt  time.Time
	// sentAt is when the exchange began, rest what remains of it if it began on the reader's goroutine.
	sentAt time.Time
	rest   restOf
	// here means that the fill runs on the goroutine of its reader: nobody else waits for what comes in between.
	here    bool
	slotted bool // has a fill place of the origin
	// prompt is the writer of the reader here, nil if it is none. whole is a response that is to be committed once the reader has it, nil if none is.
	prompt prompt
	whole  *http.Response
	// committing means that it may have it, and is not committed.
	committing atomic.Bool

	// Guarded by flights.mu.
	known        bool    // somebody may know the flight beside its reader
	newer, older *flight // neighbours among the active
	slot         slot    // where it is found, if nobody waited for it before

	ctx    context.Context
	cancel context.CancelCauseFunc // nil while here
	ev     FillEvent

	headReady chan struct{}
	head      head
	spool     spool           // head's, if that has one
	early     chan earlyHints // nil without a reader, and while here: there are none then

	// progressAt is when the last byte came, as UnixNano. waits means that the fill waits for its readers.
	progressAt atomic.Int64
	waits      atomic.Bool

	mu      sync.Mutex // guards following
	readers int
	body    io.ReadCloser // a body that is not shared and waits for the one reader who takes it
	tail    http.Header   // the trailer fields behind it, for that reader once it has read all of it
	place   *spoolReader  // in the spool, for the reader who started the fill, until that takes it
	alone   bool          // there is no such reader, or it left
	outcome fill.Outcome  // what the lease was settled with
}

// head is what a fill learned when the response's head, or the failure, came.
type head struct {
	// err is the failure, if there was no response.
	err error
	// record is set when a 304 confirmed the base: the freshened record.
	record *Record
	// status and header are the response's. header is not modified any more.
	status int
	header http.Header
	// trailer are the names of the trailer fields that the response announced.
	trailer []string
	// length is the Content-Length, −1 if unknown.
	length int64
	// failed means that the response counts as a failure of the origin: it is shared with those who waited, and not stored.
	failed    bool
	admission policy.Admission
	vary      []string
	varyStar  bool
	// outdated means that an invalidation of this response came while it was on its way.
	outdated bool
	// spool is the arriving body, nil if the body is not shared.
	spool *spool
	at    time.Time
}

// earlyHints is a 1xx response to pass on to the reader who started the fill.
type earlyHints struct {
	status int
	header textproto.MIMEHeader
}

// shared tells whether readers other than the first may have this response. A failure always is: of one whose body is somebody's own
// they get the status alone.
func (h *head) shared() bool {
	switch {
	case h.err != nil || h.failed:
		return true
	case h.record != nil || h.spool != nil:
		return h.admission.Shareable
	default:
		return false
	}
}

// personal tells of a failure that may say something about the reader who asked, and so is not for others.
func (fl *flight) personal() bool {
	h := &fl.head
	if h.admission.Shareable {
		return false
	}
	switch h.admission.Reason {
	case policy.ReasonPrivate, policy.ReasonNoStore, policy.ReasonSetCookie, policy.ReasonAuthorization, policy.ReasonVaryStar:
		return true
	default:
		return fl.preq.Authorization || len(h.header["Set-Cookie"]) > 0
	}
}

func (fl *flight) ready() bool {
	select {
	case <-fl.headReady:
		return true
	default:
		return false
	}
}

// enter counts a reader in, leave out. An unshared response ends with its last reader.
func (fl *flight) enter() {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	fl.readers++
}

func (fl *flight) leave() {
	fl.mu.Lock()
	fl.readers--
	last, body := fl.readers == 0, fl.body
	if last {
		fl.body = nil
	}
	fl.mu.Unlock()
	if !last {
		return
	}
	if body != nil {
		body.Close()
	}
	if fl.ready() && fl.head.spool == nil {
		fl.stop(context.Canceled)
	}
}

// reserve keeps a place at the start of the body for the reader who started the fill: the fill may be done with it before that reader runs again.
func (fl *flight) reserve(s *spool) {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	if !fl.alone {
		fl.place, _ = s.reader()
	}
}

// takePlace hands the reserved place over, nil if there is none.
func (fl *flight) takePlace() *spoolReader {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	place := fl.place
	fl.place, fl.alone = nil, true
	return place
}

// leaveFirst is leave for the reader who started the fill.
func (fl *flight) leaveFirst() {
	if place := fl.takePlace(); place != nil {
		place.close()
	}
	fl.leave()
}

// takeBody hands the unshared body to one reader; nil if another has it.
func (fl *flight) takeBody() io.ReadCloser {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	body := fl.body
	fl.body = nil
	return body
}

// offerBody leaves an unshared body for the one reader who takes it. False means that nobody is there.
func (fl *flight) offerBody(body io.ReadCloser, tail http.Header) bool {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	if fl.readers == 0 {
		return false
	}
	fl.body, fl.tail = body, tail
	return true
}

func (fl *flight) watched() bool {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	return fl.readers > 0
}

// suits tells whether a request with header h is answered by this flight's response as far as Vary goes: RFC 9111 §4.1.
func (fl *flight) suits(h http.Header) bool {
	if fl.head.varyStar {
		return false
	}
	if len(fl.head.vary) == 0 {
		return true
	}
	mine := policy.AppendVariant(nil, fl.head.vary, h)
	return slices.Equal(mine, policy.AppendVariant(nil, fl.head.vary, fl.req.Header))
}

// outdated tells whether an invalidation came after the fill began. What came before the head is kept with the head: the log forgets when
// the fill ends, readers may look later.
func (fl *flight) outdated() bool {
	if fl.ready() && fl.head.outdated {
		return true
	}
	if fl.ticket.void.Load() {
		return true
	}
	if fl.token > fl.c.w.log.newest.Load() {
		return false
	}
	var h http.Header
	if fl.ready() {
		h = fl.head.header
	}
	return fl.overtaken(h)
}

// overtaken asks the log about this fill, whose response, if there is one, has header h.
func (fl *flight) overtaken(h http.Header) bool {
	rec := &Record{Primary: fl.primary, Token: fl.token}
	if h != nil {
		rec.Tags = fl.c.tagsOf(fl.target, h)
	}
	return fl.c.w.taken(rec)
}

// settle ends the lease. What it ends with can be asked for afterwards.
func (fl *flight) settle(out fill.Outcome) {
	fl.mu.Lock()
	fl.outcome = out
	fl.mu.Unlock()
	fl.lease.Settle(out)
}

// settledWith is the outcome that the lease was settled with.
func (fl *flight) settledWith() fill.Outcome {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	return fl.outcome
}

func (fl *flight) progress() {
	if fl.here {
		return // patience is far below any tenure
	}
	fl.progressAt.Store(time.Now().UnixNano())
	if fl.lease != nil {
		_ = fl.lease.Renew() // a lost lease shows at the commit
	}
}

// stalled tells whether nothing has come for a tenure.
func (fl *flight) stalled(now time.Time) bool {
	return time.Duration(now.UnixNano()-fl.progressAt.Load()) > fl.c.fillCfg.Tenure
}

// flights are the fills of this process by key, so that readers find the body that is arriving. Safe for concurrent use.
type flights struct {
	mu     sync.Mutex // guards following
	m      map[fill.Key]*slot
	active *flight   // all that run, leased or not: the latest, and the others behind it
	count  int       // of active
	spare  sync.Pool // of *flight: see recycle
}

// fresh returns a flight that is zero.
func (f *flights) fresh() *flight {
	if fl, ok := f.spare.Get().(*flight); ok {
		return fl
	}
	return new(flight)
}

// recycle takes a flight back from the reader who started it, after its end. One that anybody else has seen, or that ran on another goroutine
// as well, is left to the collector.
func (f *flights) recycle(fl *flight) {
	f.mu.Lock()
	mine := fl.here && !fl.known
	f.mu.Unlock()
	if mine {
		*fl = flight{}
		f.spare.Put(fl)
	}
}

// slot is where the flight of a key is found. A waiter may hold one that is still empty: the holder got its lease a moment ago and has not
// put its flight there yet, or it is another process.
type slot struct {
	fl      *flight
	waiters int
}

func (f *flights) running() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count
}

func (f *flights) begin(fl *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	fl.older = f.active
	if fl.older != nil {
		fl.older.newer = fl
	}
	f.active = fl
}

func (f *flights) end(fl *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count--
	if fl.newer != nil {
		fl.newer.older = fl.older
	} else {
		f.active = fl.older
	}
	if fl.older != nil {
		fl.older.newer = fl.newer
	}
	fl.newer, fl.older = nil, nil
}

// committing are those whose answer may have been sent before its commit.
func (f *flights) committing() (list []*flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for fl := f.active; fl != nil; fl = fl.older {
		if fl.committing.Load() {
			fl.known = true
			list = append(list, fl)
		}
	}
	return list
}

func (f *flights) put(fl *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.m[fl.key]; s != nil && s.fl == nil {
		s.fl, fl.known = fl, true
		return
	}
	fl.slot.fl = fl
	f.setLocked(fl.key, &fl.slot)
}

func (f *flights) setLocked(key fill.Key, s *slot) {
	if f.m == nil {
		f.m = make(map[fill.Key]*slot)
	}
	f.m[key] = s
}

// remove takes fl out, unless a newer flight took its place. Waiters keep their slot and find fl there.
func (f *flights) remove(fl *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.m[fl.key]; s != nil && s.fl == fl {
		delete(f.m, fl.key)
	}
}

func (f *flights) get(key fill.Key) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.m[key]; s != nil && s.fl != nil {
		s.fl.known = true
		return s.fl
	}
	return nil
}

// successor returns the flight that stands in the place of fl, nil if none does.
func (f *flights) successor(fl *flight) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.m[fl.key]
	if s == nil || s.fl == nil || s.fl == fl {
		return nil
	}
	s.fl.known = true
	return s.fl
}

// watch returns the slot of a key for a waiter, who gives it back with unwatch.
func (f *flights) watch(key fill.Key) *slot {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.m[key]
	if s == nil {
		s = &slot{}
		f.setLocked(key, s)
	}
	if s.fl != nil {
		s.fl.known = true
	}
	s.waiters++
	return s
}

// flightOf is what the slot holds by now.
func (f *flights) flightOf(s *slot) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	return s.fl
}

func (f *flights) unwatch(key fill.Key, s *slot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.waiters--
	if s.waiters == 0 && s.fl == nil && f.m[key] == s {
		delete(f.m, key)
	}
}
