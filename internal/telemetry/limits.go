package telemetry

import (
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/fill"
)

const (
	// maxFailing is how many keys have their own pace of warnings: enough for every page of a site that is down to be heard of once, in
	// about 1 MiB.
	maxFailing = 8192
	// leastPause is the pause between two warnings of a key whose failures name no back-off.
	leastPause = time.Second
)

// keyLimit lets one line per key through in each back-off step. Safe for concurrent use.
type keyLimit struct {
	limit int

	mu    sync.Mutex // guards following
	until map[fill.Key]*pause
	full  int // lines held because no further key had room
}

type pause struct {
	end  time.Time
	held int
}

func newKeyLimit(limit int) *keyLimit {
	return &keyLimit{limit: limit, until: make(map[fill.Key]*pause)}
}

// allow tells whether key may have a line now, and how many were held since its last. The next one may follow after retry.
func (k *keyLimit) allow(key fill.Key, now time.Time, retry time.Duration) (held int, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.until[key]
	if p == nil {
		return k.enterLocked(key, now, retry)
	}
	if now.Before(p.end) {
		p.held++
		return 0, false
	}
	held, p.held = p.held, 0
	p.end = now.Add(pauseAfter(retry))
	return held, true
}

// pauseAfter is how long a key's next lines are held. It ends a little before the back-off does, whose next attempt may fail at once.
func pauseAfter(retry time.Duration) time.Duration {
	if retry <= 0 {
		return leastPause
	}
	return retry * 9 / 10
}

func (k *keyLimit) enterLocked(key fill.Key, now time.Time, retry time.Duration) (held int, ok bool) {
	if len(k.until) >= k.limit {
		k.sweepLocked(now)
	}
	if len(k.until) >= k.limit {
		k.full++
		return 0, false
	}
	k.until[key] = &pause{end: now.Add(pauseAfter(retry))}
	held, k.full = k.full, 0
	return held, true
}

// sweepLocked forgets keys whose pause is over. It runs only when the map is full, at most once for a line that passes.
func (k *keyLimit) sweepLocked(now time.Time) {
	for key, p := range k.until {
		if !now.Before(p.end) {
			delete(k.until, key)
		}
	}
}

// noteLimit lets one line per kind and second through. The zero value is ready. Safe for concurrent use.
type noteLimit struct {
	mu    sync.Mutex // guards following
	kinds [256]pause
}

func (l *noteLimit) allow(kind cache.NoteKind, now time.Time) (held int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &l.kinds[kind]
	if now.Before(p.end) {
		p.held++
		return 0, false
	}
	held, p.held = p.held, 0
	p.end = now.Add(time.Second)
	return held, true
}

// levelOf is how loud a note is.
func levelOf(k cache.NoteKind) zerolog.Level {
	switch k {
	case cache.NotePanic:
		return zerolog.ErrorLevel
	case cache.NoteCommit:
		return zerolog.DebugLevel
	case cache.NoteInvalidated:
		return zerolog.InfoLevel
	default:
		return zerolog.WarnLevel
	}
}
