package cache

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/swrproxy/swrproxy/policy"
)

// writer makes every change of the store: nothing else calls its Put or Delete. Two promises are its own and nobody else has to remember them:
//
//   - Nothing undoes an invalidation. It asks the log before each put and once more after it. An entry stays in the log while a ticket older than
//     it is open and until it was applied to the store, so a record that it reaches is either refused, or found and removed. What is made of a stored record
//     is put by a ticket as old as that: see derive.
//   - Nothing older replaces anything newer. Each change of a key happens under the key's commit lock, and the store compares tokens.
//
// Safe for concurrent use. Lock order: a commit lock, then the store's own; the log's and the tickets' locks are leaves.
type writer struct {
	store    Store
	walker   Walker // the store
	finder   Finder // the store, if it finds records by term; so the following
	locator  Locator
	journal  Journal
	syncer   Syncer
	variants int // how many of one key are kept
	noted    func(*Note)

	log      invalidations
	tickets  tickets
	unsynced atomic.Int64 // purges that have changed what is stored, and are not durable yet

	// locks order the changes of one primary key. Never held across I/O on a client's or an origin's connection.
	locks [commitStripes]sync.Mutex
	// commits counts the commits under each lock.
	commits [commitStripes]atomic.Uint64
}

// commitStripes bounds how many commits of different keys can go on at once.
const commitStripes = 256

func (w *writer) init(store Store, variants int, noted func(*Note)) {
	w.store, w.variants, w.noted = store, variants, noted
	w.walker, _ = store.(Walker)
	w.finder, _ = store.(Finder)
	w.locator, _ = store.(Locator)
	w.journal, _ = store.(Journal)
	w.syncer, _ = store.(Syncer)
}

var stripeSeed = maphash.MakeSeed()

func stripe(primary string) uint64 {
	return maphash.String(stripeSeed, primary) % commitStripes
}

func withLock(mu *sync.Mutex, f func()) {
	mu.Lock()
	defer mu.Unlock()
	f()
}

// locked runs f under the commit lock of a primary key. f must not wait for a client or an origin.
func (w *writer) locked(primary string, f func()) { withLock(&w.locks[stripe(primary)], f) }

// version grows with each commit under the lock of a primary key: while it stays the same, so does what is stored, but for removals.
func (w *writer) version(primary string) uint64 { return w.commits[stripe(primary)].Load() }

// open opens a ticket with a token. The exchange that it is for has not begun.
func (w *writer) open(t *ticket, token uint64) { w.tickets.add(t, token) }

// close closes a ticket. What the log kept for it alone is dropped. It does nothing the second time.
func (w *writer) close(t *ticket) {
	if w.tickets.remove(t) && w.log.kept.Load() > 0 {
		w.log.collect(w.tickets.lowest())
	}
}

// taken tells whether an invalidation took a record.
func (w *writer) taken(rec *Record) bool {
	_, ok := w.log.apply(rec)
	return !ok
}

// put stores a record unless an invalidation takes it, before or meanwhile; one that makes it stale is applied to it. Called under the commit lock of
// rec.Primary, by a ticket that is not younger than the record nor than any record that it is made of. The ticket is asked last: a void one says that the
// log has forgotten something.
func (w *writer) put(t *ticket, rec *Record) PutResult {
	for stored := false; ; stored = true {
		life, ok := w.log.apply(rec)
		ok = ok && !t.void.Load()
		switch {
		case !ok && stored:
			w.store.Delete(rec.Key, rec.Token)
			return PutOlder
		case !ok:
			return PutOlder
		case stored && life == rec.Life:
			return PutStored
		}
		rec = rec.living(life)
		if result := w.store.Put(rec); result != PutStored {
			return result
		}
	}
}

// derive calls put to store what is made of a stored record, with the record as it stands there and with a ticket as old as the record: if that is evicted
// meanwhile, a purge does not find it, and what is made of it would bring it back. It does not if another record stands there or an invalidation took it. by is the
// ticket of the exchange that asks for it, nil if there is none; once the older one is open nothing makes it void alone. Called under the commit lock of
// base.Primary.
func (w *writer) derive(by *ticket, base *Record, put func(t *ticket, now *Record) PutResult) PutResult {
	var older ticket
	w.open(&older, base.Token)
	defer w.close(&older)
	now, ok := w.store.Get(base.Key)
	if !ok || now.Token != base.Token || w.taken(now) || by != nil && by.void.Load() {
		return PutOlder
	}
	return put(&older, now)
}

// living returns the record with this life.
func (r *Record) living(life policy.Life) *Record {
	if life == r.Life {
		return r
	}
	changed := *r
	changed.Life = life
	return &changed
}

// drop removes what is stored under a full key, if it is not newer than token. A fill that began before token does not bring it back: the log has an entry for
// that, or, where it has no room, older tickets become void. It needs no open ticket, since all that it can do is remove what is older.
func (w *writer) drop(rec *Record, token uint64) {
	scopes := []scope{{scopeKey, rec.Key}}
	logged := w.roomFor(scopes)
	if logged {
		w.log.add(scopes[0], token, false, time.Time{})
	} else {
		w.tickets.voidBelow(token)
	}
	w.locked(rec.Primary, func() { w.store.Delete(rec.Key, token) })
	if logged {
		w.applied(scopes)
	}
}

// discard removes a record whose body is lost, and nothing that came after it.
func (w *writer) discard(rec *Record) {
	w.locked(rec.Primary, func() { w.store.Delete(rec.Key, rec.Token) })
}

// applied says that the entries of these scopes were applied to the store, one addition each.
func (w *writer) applied(scopes []scope) { w.log.done(scopes, w.tickets.lowest()) }

// apply does to a record of the store what the log says of it: removes it, or makes it stale. reached is false if it is not stored any more. tiers are
// those that had it.
func (w *writer) apply(rec *Record) (reached bool, tiers []string) {
	w.locked(rec.Primary, func() {
		tiers = w.tiersOf(rec.Key)
		life, ok := w.log.apply(rec)
		switch {
		case !ok:
			reached = w.store.Delete(rec.Key, rec.Token)
		case life == rec.Life || rec.Index != nil:
			reached = w.stored(rec)
		default:
			reached = w.expire(rec)
		}
	})
	return reached, tiers
}

// stored tells whether a record, or what was made of it, is still stored.
func (w *writer) stored(rec *Record) bool {
	now, ok := w.store.Get(rec.Key)
	return ok && now.Token == rec.Token
}

// expire makes a record stale by the log, in the form that the store has it in now: it may have been made stale before by an invalidation whose entry
// is gone, and deadlines only ever move earlier. A store that does not take the change must not keep the record as it was.
func (w *writer) expire(rec *Record) (reached bool) {
	w.derive(nil, rec, func(t *ticket, now *Record) PutResult {
		reached = true
		result := w.put(t, now)
		if result != PutStored {
			w.store.Delete(now.Key, now.Token)
		}
		return result
	})
	return reached
}

func (w *writer) tiersOf(key string) []string {
	if w.locator == nil {
		return nil
	}
	return w.locator.TiersOf(key)
}
