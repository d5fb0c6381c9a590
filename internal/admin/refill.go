package admin

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/swrproxy/swrproxy/cache"
)

const (
	// defaultRefills is how many refills run at once.
	defaultRefills = 16
	// maxRefills is how many URLs wait at most, some 20 MiB.
	maxRefills = 100_000
	// slotPause and slotTries bound how long a refill waits for a place among the fills of its origin.
	slotPause = 100 * time.Millisecond
	slotTries = 600
)

// refiller fetches URLs afresh, a few at a time, behind the answers of purges. It has no goroutine while it has nothing to do. Safe for
// concurrent use.
type refiller struct {
	cache Cache
	most  int
	ctx   context.Context
	stop  context.CancelFunc
	work  sync.WaitGroup

	mu      sync.Mutex // guards following
	queue   []string
	running int
	closed  bool
}

func newRefiller(c Cache, most int) *refiller {
	if most <= 0 {
		most = defaultRefills
	}
	f := &refiller{cache: c, most: most}
	f.ctx, f.stop = context.WithCancel(context.Background())
	return f
}

// enqueue takes as many of urls as there is room for, and tells how many.
func (f *refiller) enqueue(urls []string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return 0
	}
	n := min(len(urls), maxRefills-len(f.queue))
	f.queue = append(f.queue, urls[:n]...)
	for range min(n, f.most-f.running) {
		f.running++
		f.work.Go(f.run)
	}
	return n
}

// run refills until nothing waits.
func (f *refiller) run() {
	for url, ok := f.next(); ok; url, ok = f.next() {
		f.refill(url)
	}
}

func (f *refiller) next() (string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.queue) == 0 || f.closed {
		f.queue = nil
		f.running--
		return "", false
	}
	url := f.queue[0]
	f.queue = f.queue[1:]
	return url, true
}

// refill fetches one URL as a reader without any header field would. What fails is left to the next reader; the cache tells its Observer.
func (f *refiller) refill(url string) {
	for range slotTries {
		r, bad := requestFor(f.ctx, url, nil)
		if bad != nil {
			return // a key that only a Host field can make
		}
		if err := f.cache.Refresh(f.ctx, r); !errors.Is(err, cache.ErrNoSlot) {
			return
		}
		select {
		case <-time.After(slotPause):
		case <-f.ctx.Done():
			return
		}
	}
}

// waiting is how many URLs wait.
func (f *refiller) waiting() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.queue)
}

// close drops what waits, and returns when no refill runs any more.
func (f *refiller) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.stop()
	f.work.Wait()
}
