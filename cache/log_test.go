package cache

import (
	"context"
	"math"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swrproxy/swrproxy/fill"
	"github.com/swrproxy/swrproxy/policy"
)

// mapStore is a store that keeps all records and finds them by term. got and set, if there are any, are called behind a look and before a put. Safe for concurrent use.
type mapStore struct {
	mu      sync.Mutex // guards following
	records map[string]*Record
	got     func(key string)
	set     func(*Record)
	walked  int
}

func (s *mapStore) Get(key string) (*Record, bool) {
	s.mu.Lock()
	r, ok := s.records[key]
	got := s.got
	s.mu.Unlock()
	if got != nil {
		got(key)
	}
	return r, ok
}

func (s *mapStore) Put(r *Record) PutResult {
	s.mu.Lock()
	set := s.set
	s.mu.Unlock()
	if set != nil {
		set(r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if have := s.records[r.Key]; have != nil && have.Token > r.Token {
		return PutOlder
	}
	if s.records == nil {
		s.records = make(map[string]*Record)
	}
	s.records[r.Key] = r
	return PutStored
}

func (s *mapStore) Delete(key string, token uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.records[key]
	if r == nil || r.Token > token {
		return false
	}
	delete(s.records, key)
	return true
}

func (s *mapStore) all() (list []*Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.walked++
	for _, r := range s.records {
		list = append(list, r)
	}
	return list
}

func (s *mapStore) Walk(f func(*Record) bool) {
	for _, r := range s.all() {
		if !f(r) {
			return
		}
	}
}

func (s *mapStore) Find(term string, f func(*Record) bool) {
	s.Walk(func(r *Record) bool {
		for t := range r.Terms() {
			if t == term {
				return f(r)
			}
		}
		return true
	})
}

func (s *mapStore) Close(context.Context) error { return nil }

func (s *mapStore) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.records)
}

// hook sets what is called behind a look and before a put; each is called once.
func (s *mapStore) hook(got func(key string), set func(*Record)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var gotOnce, setOnce sync.Once
	if got != nil {
		s.got = func(key string) { gotOnce.Do(func() { got(key) }) }
	}
	if set != nil {
		s.set = func(r *Record) { setOnce.Do(func() { set(r) }) }
	}
}

// loneWriter is a writer on a store of its own.
func loneWriter() (*writer, *mapStore) {
	w, s := new(writer), new(mapStore)
	w.init(s, 8, func(*Note) {})
	return w, s
}

const (
	loneKey = "r\x00http://h/a"
)

func loneRecord(token uint64, tags ...string) *Record {
	return &Record{
		Key: loneKey, Primary: loneKey, Token: token, Status: 200, Body: MemoryBody([]byte("old")), Tags: tags,
		Life: policy.Life{BornAt: time.Now().UTC().Round(0), FreshFor: time.Hour},
	}
}

// pretend makes an entry for a purge of a scope that found nothing in the store, and is over.
func pretend(w *writer, s scope, seq uint64) {
	w.log.add(s, seq, false, time.Time{})
	w.applied([]scope{s})
}

// fillLog makes n entries that wait for a walk.
func fillLog(w *writer, kind scopeKind, n int) {
	for i := range n {
		w.log.add(scope{kind, "http://other/" + strconv.Itoa(i)}, uint64(i+1), false, time.Time{})
	}
}

// TestDropInAFullLog: what one fill drops is one record, and no older fill brings it back, however much waits for a walk.
func TestDropInAFullLog(t *testing.T) {
	for name, kind := range map[string]scopeKind{"patterns": scopePrefix, "urls": scopeURL} {
		t.Run(name, func(t *testing.T) {
			w, store := loneWriter()
			fillLog(w, kind, map[scopeKind]int{scopePrefix: maxPatterns, scopeURL: maxEntries}[kind])
			other := loneRecord(1 << 20)
			other.Key, other.Primary = "r\x00http://h/b", "r\x00http://h/b"
			store.Put(other)
			base := loneRecord(1 << 20)
			store.Put(base)
			var slow ticket
			w.open(&slow, 1<<20+1)
			w.drop(base, 1<<20+2)
			if _, ok := store.Get(base.Key); ok {
				t.Error("the record is still there")
			}
			if w.taken(other) {
				t.Error("another record was invalidated with it")
			}
			if result := w.commit(&slow, &change{rec: loneRecord(0), settings: &policy.Settings{}}); result == PutStored {
				t.Error("a fill that began before has brought the record back")
			}
			if n := w.log.size(); n > maxEntries {
				t.Errorf("%d entries", n)
			}
		})
	}
}

// TestVoidTicketInTheMiddleOfACommit: a commit that has begun when the log gives its ticket up stores nothing either.
func TestVoidTicketInTheMiddleOfACommit(t *testing.T) {
	forget := func(w *writer) {
		pretend(w, scope{scopeURL, loneKey}, 11)
		w.tickets.voidBelow(12)
		w.log.collect(w.tickets.lowest())
	}
	for name, by := range map[string]func(w *writer, t *ticket, base *Record) PutResult{
		"HEAD": func(w *writer, t *ticket, base *Record) PutResult { return w.update(t, base, loneRecord(0)) },
		"304": func(w *writer, t *ticket, base *Record) PutResult {
			return w.commit(t, &change{rec: loneRecord(0), base: base, settings: &policy.Settings{}})
		},
	} {
		w, store := loneWriter()
		base := loneRecord(5)
		store.Put(base)
		var exchange ticket
		w.open(&exchange, 10)
		store.hook(func(string) { forget(w) }, nil)
		if result := by(w, &exchange, base); result == PutStored {
			t.Errorf("%s: committed", name)
		}
	}
	w, store := loneWriter()
	var fill ticket
	w.open(&fill, 10)
	store.hook(nil, func(*Record) { forget(w) })
	if result := w.commit(&fill, &change{rec: loneRecord(0), settings: &policy.Settings{}}); result == PutStored {
		t.Error("committed")
	}
	if n := store.size(); n != 0 {
		t.Errorf("%d records from before a purge that is over", n)
	}
}

// TestNothingIsMadeOfWhatIsGone: a change that is made of a stored record brings nothing back if that is evicted under its hands, so that a purge does not find it.
func TestNothingIsMadeOfWhatIsGone(t *testing.T) {
	url := scope{scopeURL, loneKey}
	for name, act := range map[string]func(w *writer, base *Record){
		"soft purge": func(w *writer, base *Record) {
			w.log.add(scope{kind: scopeAll}, 20, true, time.Now())
			w.apply(base)
		},
		"HEAD": func(w *writer, base *Record) {
			var head ticket
			w.open(&head, 40)
			w.update(&head, base, loneRecord(0))
		},
		"304": func(w *writer, base *Record) {
			var fill ticket
			w.open(&fill, 40)
			w.commit(&fill, &change{rec: loneRecord(0), base: base, settings: &policy.Settings{}})
		},
		"Vary appears": func(w *writer, _ *Record) {
			var fill ticket
			w.open(&fill, 40)
			rec := loneRecord(0)
			rec.Body = MemoryBody([]byte("new"))
			w.commit(&fill, &change{rec: rec, vary: []string{"Accept-Language"}, settings: &policy.Settings{}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, store := loneWriter()
			base := loneRecord(5)
			store.Put(base)
			store.hook(func(string) {
				store.Delete(base.Key, base.Token)
				pretend(w, url, 30)
			}, nil)
			act(w, base)
			for _, r := range store.all() {
				if b, _ := r.Body.Bytes(); string(b) == "old" {
					t.Errorf("a purge that is over left %q under %q", b, r.Key)
				}
			}
		})
	}
}

// TestConfirmedRecordMustStand: RFC 9111 §4.3.4. A 304 stores the body of a record anew; if that was purged by a tag which the 304 does not name any more, or replaced,
// nothing is stored.
func TestConfirmedRecordMustStand(t *testing.T) {
	for name, meanwhile := range map[string]func(w *writer, store *mapStore, base *Record){
		"purged by a tag": func(w *writer, store *mapStore, base *Record) {
			s := scope{scopeTag, "x"}
			w.log.add(s, 11, false, time.Time{})
			w.apply(base)
			w.applied([]scope{s})
		},
		"purged and replaced": func(w *writer, store *mapStore, base *Record) {
			store.Delete(base.Key, base.Token)
			rec := loneRecord(7, "x")
			rec.Body = MemoryBody([]byte("new"))
			store.Put(rec)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, store := loneWriter()
			base := loneRecord(5, "x")
			store.Put(base)
			var fill ticket
			w.open(&fill, 10)
			meanwhile(w, store, base)
			if result := w.commit(&fill, &change{rec: loneRecord(0, "y"), base: base, settings: &policy.Settings{}}); result != PutOlder {
				t.Errorf("%v", result)
			}
			for _, r := range store.all() {
				if b, _ := r.Body.Bytes(); string(b) == "old" {
					t.Error("the body of a purged record is stored again")
				}
			}
		})
	}
}

// TestNumberOfAPurgeIsAboveAllThatSawItNot: what began without an entry of a purge in its sight has a number below the purge's, however many entries that makes.
func TestNumberOfAPurgeIsAboveAllThatSawItNot(t *testing.T) {
	store := &mapStore{}
	c, err := New(Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	var scopes []scope
	for i := range maxEntries - 1 {
		scopes = append(scopes, scope{scopeTag, strconv.Itoa(i)})
	}
	p := newPurge(append(scopes, scope{scopeTag, "x"}), PurgeOptions{})
	base := loneRecord(c.seq.Next(), "x")
	logged, last := make(chan struct{}), make(chan uint64)
	go func() {
		var unseen uint64
		for {
			if n := c.seq.Next(); !c.w.taken(base) {
				unseen = n
				continue
			}
			last <- unseen
			return
		}
	}()
	c.log(p)
	close(logged)
	if unseen := <-last; unseen > p.seq {
		t.Errorf("number %d of %d did not see the purge", unseen, p.seq)
	}
}

// TestLogIsCollectedInPieces: look-ups wait for the log's lock, so nobody holds it for all that the log has.
func TestLogIsCollectedInPieces(t *testing.T) {
	w, _ := loneWriter()
	var slow ticket
	w.open(&slow, 1)
	for n := range uint64(3 * atOnce) {
		pretend(w, scope{scopeURL, strconv.FormatUint(n, 10)}, n+2)
	}
	if more := w.log.collectSome(math.MaxUint64); !more || w.log.size() != 2*atOnce {
		t.Errorf("%d entries are left, want %d", w.log.size(), 2*atOnce)
	}
	w.close(&slow)
	if n := w.log.size(); n != 0 {
		t.Errorf("%d entries are left, want none", n)
	}
}

// TestSoftEntriesWhenTheClockIsSetBack: a later soft purge by an earlier clock still makes stale from its own instant on.
func TestSoftEntriesWhenTheClockIsSetBack(t *testing.T) {
	var l invalidations
	noon := time.Now().UTC().Round(0)
	rec := loneRecord(5)
	rec.Life.BornAt = noon.Add(-2 * time.Hour)
	rec.Life.FreshFor = 10 * time.Hour
	for n := range uint64(2 * maxSofts) {
		at := noon.Add(-time.Duration(n) * time.Minute)
		l.add(scope{scopeURL, loneKey}, 10+n, true, at)
		if life, ok := l.apply(rec); !ok || life.TTL(at) > 0 {
			t.Fatalf("after %d soft purges: fresh for %v more", n+1, life.TTL(at))
		}
	}
}

// TestRoomIsWaitedForAsleep: who waits for room in the log does not keep a processor busy, whatever the log waits for.
func TestRoomIsWaitedForAsleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := loneWriter()
		fillLog(w, scopeURL, maxEntries)
		waited := make(chan error)
		go func() { waited <- w.makeRoom(t.Context(), []scope{{scopeURL, "u"}}, nil) }()
		synctest.Wait()
		select {
		case err := <-waited:
			t.Fatalf("did not wait: %v", err)
		default:
		}
		w.applied([]scope{{scopeURL, "http://other/0"}})
		if err := <-waited; err != nil {
			t.Error(err)
		}
	})
}

// TestFlightRemembersWhatOvertookIt: a reader who has found a fill just before its end learns of a purge from before that reader, although the log has forgotten it by then.
func TestFlightRemembersWhatOvertookIt(t *testing.T) {
	for _, how := range []string{"end", "outgrown"} {
		t.Run(how, func(t *testing.T) {
			c, err := New(Config{Store: &mapStore{}})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close(context.Background())
			fl := &flight{c: c, primary: loneKey, token: c.seq.Next(), headReady: make(chan struct{}), background: true}
			fl.spool.open(10, -1, nil)
			fl.head.spool = &fl.spool
			if !c.enroll(fl) {
				t.Fatal("not enrolled")
			}
			pretend(&c.w, scope{scopeURL, loneKey}, c.seq.Next())
			if !fl.outdated() {
				t.Fatal("not outdated while it runs")
			}
			if how == "outgrown" {
				fl.outgrown()
			} else {
				defer func() {
					if p := recover(); p != nil {
						t.Fatal(p)
					}
				}()
				fl.end(fill.Outcome{Kind: fill.Stored})
			}
			if c.w.log.size() != 0 {
				t.Fatal("the log has not forgotten the purge")
			}
			if !fl.outdated() {
				t.Error("readers from after a purge may join a fill from before it")
			}
			if how == "outgrown" {
				fl.end(fill.Outcome{Kind: fill.Stored})
			}
		})
	}
}

// TestCountOfWhatIsGone: a record that is gone counts for nobody, stale already or not; nor for a dry run one that an invalidation has taken.
func TestCountOfWhatIsGone(t *testing.T) {
	w, _ := loneWriter()
	gone := loneRecord(5)
	gone.Life = gone.Life.Expire(time.Now().UTC().Round(0).Add(-time.Minute))
	w.log.add(scope{kind: scopeAll}, 20, true, time.Now().UTC().Round(0))
	if reached, _ := w.apply(gone); reached {
		t.Error("a stale record that is gone was counted")
	}
	w, store := loneWriter()
	taken := loneRecord(5)
	store.Put(taken)
	w.log.add(scope{scopeHost, "h"}, 20, false, time.Time{})
	dry := newPurge([]scope{{kind: scopeAll}}, PurgeOptions{DryRun: true})
	dry.reach = reach(dry.scopes)
	w.applyAll([]*purge{dry}, taken)
	if dry.res.Records != 0 {
		t.Error("a dry run counted what a purge has taken")
	}
}

// badJournal is a journal whose last entry cannot be read.
type badJournal struct{ mapStore }

func (*badJournal) SaveInvalidation(Invalidation) {}
func (*badJournal) DropInvalidation(uint64)       {}
func (*badJournal) Sync(context.Context) error    { return nil }
func (*badJournal) Invalidations() []Invalidation {
	return []Invalidation{{Seq: 1, Scope: "host h"}, {Seq: 2, Scope: "host i"}, {Seq: 3, Scope: "nonsense x"}}
}

// TestBadJournalLeavesNothingBehind: New that fails has begun nothing in the store.
func TestBadJournalLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &badJournal{}
		if _, err := New(Config{Store: store}); err == nil {
			t.Fatal("accepted")
		}
		synctest.Wait()
		if store.walked > 0 {
			t.Error("the store is walked behind a New that failed")
		}
	})
}
