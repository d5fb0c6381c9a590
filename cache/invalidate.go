package cache

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/swrproxy/swrproxy/policy"
)

// invalidations is the log of what was invalidated: an entry is stronger than every record whose token is below its own
// number. So nothing has to be found at the time of a purge, and a fill that began before one can not bring the old content back. An
// entry is dropped once it was applied to the store and no fill from before it runs any more. Safe for concurrent use.
type invalidations struct {
	newest atomic.Uint64 // the highest number of any entry: records above it need no look
	kept   atomic.Int64  // how many entries there are

	mu      sync.RWMutex // guards following
	entries map[scope]*entry
	// patterns are the entries of scopePrefix and scopeGlob, which every look has to try; few, since they are dropped soon.
	patterns []scope
}

// scope is what an entry reaches.
type scope struct {
	kind  scopeKind
	value string
}

// scopeKind is a closed enum.
type scopeKind uint8

const (
	_           scopeKind = iota
	scopeAll              // every record
	scopeHost             // records whose URL has this authority
	scopeURL              // records of this space and URL, see urlPrefix
	scopeTag              // records with this tag, compared whole
	scopePrefix           // records whose URL starts with this
	scopeGlob             // records whose URL matches this pattern
)

// entry is the newest hard and soft invalidation of one scope.
type entry struct {
	hard, soft uint64
	softAt     time.Time
	// pending counts the purges that still apply the entry to the store.
	pending int
}

func (e *entry) add(seq uint64, soft bool, at time.Time) {
	switch {
	case !soft:
		e.hard = max(e.hard, seq)
	case seq > e.soft:
		e.soft, e.softAt = seq, at
	}
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
	if e.soft > token && (f.softAt.IsZero() || e.softAt.Before(f.softAt)) {
		f.softAt = e.softAt
	}
}

// mayConcern is false if nothing was invalidated since the record's fill began.
func (l *invalidations) mayConcern(rec *Record) bool { return rec.Token <= l.newest.Load() }

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
	if len(l.entries) == 0 {
		return f
	}
	f.weigh(l.entries[scope{kind: scopeAll}], rec.Token)
	f.weigh(l.entries[scope{scopeURL, prefix}], rec.Token)
	f.weigh(l.entries[scope{scopeHost, hostOf(url)}], rec.Token)
	for _, tag := range rec.Tags {
		f.weigh(l.entries[scope{scopeTag, tag}], rec.Token)
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

// add makes an entry that holds from now on. It stays until done was called once for it.
func (l *invalidations) add(s scope, seq uint64, soft bool, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entries == nil {
		l.entries = make(map[scope]*entry)
	}
	e := l.entries[s]
	if e == nil {
		e = &entry{}
		l.entries[s] = e
		if s.kind == scopePrefix || s.kind == scopeGlob {
			l.patterns = append(l.patterns, s)
		}
	}
	e.add(seq, soft, at)
	e.pending++
	l.newest.Store(max(l.newest.Load(), seq))
	l.kept.Store(int64(len(l.entries)))
}

// done says that the entries were applied to the store. What no running fill can be older than is dropped.
func (l *invalidations) done(scopes []scope, oldestFill uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range scopes {
		if e := l.entries[s]; e != nil {
			e.pending--
		}
	}
	l.collectLocked(oldestFill)
}

// collect drops the entries that only waited for older fills to end.
func (l *invalidations) collect(oldestFill uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.collectLocked(oldestFill)
}

func (l *invalidations) collectLocked(oldestFill uint64) {
	before := len(l.entries)
	for s, e := range l.entries {
		if e.pending == 0 && max(e.hard, e.soft) < oldestFill {
			delete(l.entries, s)
		}
	}
	if len(l.entries) < before {
		l.patterns = deleteAll(l.patterns, func(p scope) bool { return l.entries[p] == nil })
	}
	l.kept.Store(int64(len(l.entries)))
}

func deleteAll(list []scope, gone func(scope) bool) []scope {
	kept := list[:0:0]
	for _, s := range list {
		if !gone(s) {
			kept = append(kept, s)
		}
	}
	return kept
}

// size is the number of entries, for tests and statistics.
func (l *invalidations) size() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(l.entries)
}
