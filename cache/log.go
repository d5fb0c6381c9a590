package cache

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/swrproxy/swrproxy/policy"
)

// invalidations is the log of what was invalidated: an entry is stronger than every record whose token is below its own
// number. So nothing has to be found at the time of a purge, and a fill that began before one can not bring the old content back. An
// entry is dropped once it was applied to the store and no ticket from before it is open any more. Safe for concurrent use.
//
// The log is bounded: see full.
type invalidations struct {
	newest atomic.Uint64 // the highest number of any entry: records above it need no look
	kept   atomic.Int64  // how many entries there are
	added  atomic.Uint64 // how many were ever added

	mu      sync.RWMutex // guards following
	entries map[scope]*entry
	kinds   [numScopeKinds]int // entries of each kind
	// patterns are the entries of scopePrefix and scopeGlob, which every look has to try.
	patterns []scope
	applied  appliedEntries // those that wait for older tickets only, the lowest number first
}

const (
	// maxEntries bounds the log: an entry takes about 300 bytes.
	maxEntries = 16 << 10
	// maxPatterns bounds what each look has to try one by one.
	maxPatterns = 256
	// maxSofts bounds the soft invalidations that one entry keeps apart.
	maxSofts = 8
)

// scope is what an entry reaches.
type scope struct {
	kind  scopeKind
	value string
}

// scopeKind is a closed enum.
type scopeKind uint8

const (
	_             scopeKind = iota
	scopeAll                // every record
	scopeHost               // records whose URL has this authority
	scopeURL                // records of this space and URL, see urlPrefix
	scopeTag                // records with this tag, compared whole
	scopePrefix             // records whose URL starts with this
	scopeGlob               // records whose URL matches this pattern
	scopeKey                // the record under this full key
	numScopeKinds           // how many kinds there are
)

// entry holds the invalidations of one scope.
type entry struct {
	scope scope
	hard  uint64
	softs []softEntry // by number
	// pending counts the additions that are not applied to the store yet.
	pending int
	place   int // in applied, −1 if it is not there
}

// softEntry is one soft invalidation.
type softEntry struct {
	seq uint64
	at  time.Time
}

func (e *entry) add(seq uint64, soft bool, at time.Time) {
	if !soft {
		e.hard = max(e.hard, seq)
		return
	}
	i, _ := slices.BinarySearchFunc(e.softs, seq, func(s softEntry, seq uint64) int { return cmp.Compare(s.seq, seq) })
	e.softs = slices.Insert(e.softs, i, softEntry{seq, at})
	if len(e.softs) > maxSofts { // the first instant for more records than it was meant for: earlier, never later
		e.softs[1].at = e.softs[0].at
		e.softs = slices.Delete(e.softs, 0, 1)
	}
}

// newest is the highest number in the entry.
func (e *entry) newest() uint64 {
	if n := len(e.softs); n > 0 {
		return max(e.hard, e.softs[n-1].seq)
	}
	return e.hard
}

// finding is what entries say of one record.
type finding struct {
	hard   bool
	softAt time.Time
}

func (f *finding) weigh(e *entry, token uint64) {
	if e == nil {
		return
	}
	if e.hard > token {
		f.hard = true
	}
	for _, s := range e.softs { // the first that counts is the earliest
		if s.seq > token {
			if f.softAt.IsZero() || s.at.Before(f.softAt) {
				f.softAt = s.at
			}
			return
		}
	}
}

// mayConcern is false if nothing that the log still has was invalidated since the record's fill began.
func (l *invalidations) mayConcern(rec *Record) bool {
	return rec.Token <= l.newest.Load() && l.kept.Load() > 0
}

// apply returns the record's life with soft invalidations applied; false if a hard one took the record.
func (l *invalidations) apply(rec *Record) (policy.Life, bool) {
	if !l.mayConcern(rec) {
		return rec.Life, true
	}
	f := l.find(rec)
	switch {
	case f.hard:
		return policy.Life{}, false
	case !f.softAt.IsZero():
		return rec.Life.Expire(f.softAt), true
	default:
		return rec.Life, true
	}
}

func (l *invalidations) find(rec *Record) (f finding) {
	prefix := urlPrefix(rec.Primary)
	url := urlOf(prefix)
	l.mu.RLock()
	defer l.mu.RUnlock()
	weigh := func(kind scopeKind, value string) {
		if l.kinds[kind] > 0 {
			f.weigh(l.entries[scope{kind, value}], rec.Token)
		}
	}
	weigh(scopeAll, "")
	weigh(scopeKey, rec.Key)
	weigh(scopeURL, prefix)
	weigh(scopeHost, hostOf(url))
	for _, tag := range rec.Tags {
		weigh(scopeTag, tag)
	}
	for _, p := range l.patterns {
		if p.matches(url, "", nil) {
			f.weigh(l.entries[p], rec.Token)
		}
	}
	return f
}

// urlPrefix is the part of a primary key that all records of one URL and rule share: space NUL URL.
func urlPrefix(primary string) string {
	space := strings.IndexByte(primary, 0) + 1
	if end := strings.IndexByte(primary[space:], 0); end >= 0 {
		return primary[:space+end]
	}
	return primary
}

// urlOf cuts the URL out of what urlPrefix returned.
func urlOf(prefix string) string {
	_, url, _ := strings.Cut(prefix, "\x00")
	return url
}

// hostOf is the authority of a URL.
func hostOf(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	host, _, _ := strings.Cut(rest, "/")
	return host
}

// matches tells whether a record with this URL, prefix (see urlPrefix) and tags is in the scope.
func (s scope) matches(url, prefix string, tags []string) bool {
	switch s.kind {
	case scopeAll:
		return true
	case scopeHost:
		return hostOf(url) == s.value
	case scopeURL:
		return prefix == s.value
	case scopePrefix:
		return strings.HasPrefix(url, s.value)
	case scopeGlob:
		return matchGlob(s.value, url)
	case scopeTag:
		for _, t := range tags {
			if t == s.value {
				return true
			}
		}
	}
	return false
}

// matchGlob matches a URL against a pattern whose * stands for any run of characters, slashes included.
func matchGlob(pattern, url string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == url
	}
	if !strings.HasPrefix(url, first) {
		return false
	}
	url = url[len(first):]
	parts := strings.Split(rest, "*")
	for _, part := range parts[:len(parts)-1] {
		i := strings.Index(url, part)
		if i < 0 {
			return false
		}
		url = url[i+len(part):]
	}
	return strings.HasSuffix(url, parts[len(parts)-1])
}

// full tells whether the log has reached its bound. Entries that only wait for older tickets are given up first, see writer.makeRoom; what is left
// waits for a walk over the store.
func (l *invalidations) full() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.fullLocked()
}

func (l *invalidations) fullLocked() bool {
	return len(l.entries) >= maxEntries || len(l.patterns) >= maxPatterns
}

// add makes an entry that holds from now on, and returns its scope. It stays until done was called once for it. In a full log it reaches everything:
// whoever minds makes room first.
func (l *invalidations) add(s scope, seq uint64, soft bool, at time.Time) scope {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[s]
	if e == nil && l.fullLocked() {
		s = scope{kind: scopeAll}
		e = l.entries[s]
	}
	if e == nil {
		e = l.enterLocked(s)
	}
	if e.place >= 0 {
		heap.Remove(&l.applied, e.place)
	}
	e.add(seq, soft, at)
	e.pending++
	l.newest.Store(max(l.newest.Load(), seq))
	l.kept.Store(int64(len(l.entries)))
	l.added.Add(1)
	return s
}

func (l *invalidations) enterLocked(s scope) *entry {
	if l.entries == nil {
		l.entries = make(map[scope]*entry)
	}
	e := &entry{scope: s, place: -1}
	l.entries[s] = e
	l.kinds[s.kind]++
	if s.kind == scopePrefix || s.kind == scopeGlob {
		l.patterns = append(l.patterns, s)
	}
	return e
}

// done says that the entries were applied to the store, one addition each. What no open ticket can be older than is dropped.
func (l *invalidations) done(scopes []scope, lowest uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range scopes {
		e := l.entries[s]
		if e.pending--; e.pending == 0 {
			heap.Push(&l.applied, e)
		}
	}
	l.collectLocked(lowest)
}

// collect drops the entries that only waited for older tickets to be closed.
func (l *invalidations) collect(lowest uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.collectLocked(lowest)
}

func (l *invalidations) collectLocked(lowest uint64) {
	for len(l.applied) > 0 && l.applied[0].newest() < lowest {
		l.dropLocked(heap.Pop(&l.applied).(*entry))
	}
	l.kept.Store(int64(len(l.entries)))
}

func (l *invalidations) dropLocked(e *entry) {
	delete(l.entries, e.scope)
	l.kinds[e.scope.kind]--
	if e.scope.kind == scopePrefix || e.scope.kind == scopeGlob {
		l.patterns = slices.DeleteFunc(slices.Clone(l.patterns), func(p scope) bool { return p == e.scope })
	}
}

// middle is the number in the middle of those that only wait for older tickets, 0 if there is none.
func (l *invalidations) middle() uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if len(l.applied) == 0 {
		return 0
	}
	all := make([]uint64, 0, len(l.applied))
	for _, e := range l.applied {
		all = append(all, e.newest())
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// size is the number of entries, for tests and statistics.
func (l *invalidations) size() int { return int(l.kept.Load()) }

// appliedEntries is a heap for container/heap.
type appliedEntries []*entry

func (h appliedEntries) Len() int           { return len(h) }
func (h appliedEntries) Less(i, j int) bool { return h[i].newest() < h[j].newest() }

func (h appliedEntries) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push adds an entry, for heap.Push.
func (h *appliedEntries) Push(x any) {
	e := x.(*entry)
	e.place = len(*h)
	*h = append(*h, e)
}

// Pop removes the last entry, for heap.Pop.
func (h *appliedEntries) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h, e.place = (*h)[:last], -1
	return e
}
