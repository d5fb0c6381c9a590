package cache

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/swrproxy/swrproxy/fill"
)

// maxKeyStates bounds the keys whose trouble is remembered. Beyond it an arbitrary one is forgotten: that costs one
// attempt too many, never a wrong answer.
const maxKeyStates = 1 << 16

// keyStates remembers, for a bounded time, keys whose last fill failed (back-off) and keys whose answer could not be
// shared. Safe for concurrent use.
type keyStates struct {
	first, max, markFor time.Duration

	n  atomic.Int64 // len(m), so that the healthy case takes no lock
	mu sync.Mutex   // guards following
	m  map[fill.Key]keyState
}

// keyState is what is remembered of one key.
type keyState struct {
	failures int
	retryAt  time.Time
	// markedUntil ends the time in which readers go straight to the origin.
	markedUntil time.Time
	// hungUntil ends the time in which the origin is held to be one that does not answer in time.
	hungUntil time.Time
}

// over tells whether nothing in s matters any more. A failure is remembered for a while after its pause so
// that the next pause grows.
func (s keyState) over(now time.Time, memory time.Duration) bool {
	return now.After(s.markedUntil) && now.After(s.retryAt.Add(memory)) && now.After(s.hungUntil)
}

func (k *keyStates) get(key fill.Key) keyState {
	if k.n.Load() == 0 {
		return keyState{}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.m[key]
}

// hang remembers that the origin did not answer in time: as long after the pause as the longest pause, so that readers who come more
// often than that do not have to find it out again.
func (k *keyStates) hang(key fill.Key, now time.Time) {
	k.update(key, now, func(s *keyState) {
		from := now
		if s.retryAt.After(now) {
			from = s.retryAt
		}
		s.hungUntil = from.Add(k.max)
	})
}

// heard forgets that the origin hung: it has answered, whatever it said.
func (k *keyStates) heard(key fill.Key) {
	if k.n.Load() == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if s, ok := k.m[key]; ok {
		s.hungUntil = time.Time{}
		k.m[key] = s
	}
}

// backingOff tells whether an attempt on key must wait.
func (k *keyStates) backingOff(key fill.Key, now time.Time) bool {
	return now.Before(k.get(key).retryAt)
}

// marked tells whether readers of key should go to the origin each on its own.
func (k *keyStates) marked(key fill.Key, now time.Time) bool {
	return now.Before(k.get(key).markedUntil)
}

// mark remembers that the answer of key can not be shared.
func (k *keyStates) mark(key fill.Key, now time.Time) {
	if k.markFor <= 0 {
		return
	}
	k.update(key, now, func(s *keyState) { s.markedUntil = now.Add(k.markFor) })
}

// failed counts a failure of a fill that began at since, and returns when the next attempt may begin: the pause doubles with each
// failure up to max, is jittered by a quarter either way, and is never below atLeast, the origin's Retry-After.
func (k *keyStates) failed(key fill.Key, since, now time.Time, atLeast time.Duration) (retryAt time.Time) {
	k.update(key, now, func(s *keyState) {
		s.failures++
		retryAt = since.Add(jitter(k.pause(s.failures)))
		if least := now.Add(atLeast); atLeast > 0 && retryAt.Before(least) {
			retryAt = least
		}
		s.retryAt = retryAt
	})
	return retryAt
}

func (k *keyStates) pause(failures int) time.Duration {
	p := k.first
	for range failures - 1 {
		if p >= k.max/2 {
			return k.max
		}
		p *= 2
	}
	return min(p, k.max)
}

func jitter(d time.Duration) time.Duration {
	return d*3/4 + time.Duration(rand.Int64N(int64(d)/2+1))
}

// forget drops what is remembered of key: its fill went well.
func (k *keyStates) forget(key fill.Key) {
	if k.n.Load() == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.m, key)
	k.n.Store(int64(len(k.m)))
}

func (k *keyStates) update(key fill.Key, now time.Time, f func(*keyState)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.m == nil {
		k.m = make(map[fill.Key]keyState)
	}
	s, ok := k.m[key]
	if !ok && len(k.m) >= maxKeyStates {
		k.makeRoomLocked(now)
	}
	f(&s)
	k.m[key] = s
	k.n.Store(int64(len(k.m)))
}

// makeRoomLocked drops a few finished states, or one that is not.
func (k *keyStates) makeRoomLocked(now time.Time) {
	const look = 64
	seen, dropped := 0, false
	var last fill.Key
	for key, s := range k.m {
		if s.over(now, k.max) {
			delete(k.m, key)
			dropped = true
		}
		last = key
		if seen++; seen == look {
			break
		}
	}
	if !dropped {
		delete(k.m, last)
	}
}
