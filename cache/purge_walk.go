package cache

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// walks are the purges that wait for a walk over the store. One goroutine walks while there are any, and takes all that wait along. The zero value is
// ready. Safe for concurrent use.
type walks struct {
	mu      sync.Mutex // guards following
	queue   []*purge
	running bool
	end     chan struct{} // closed at the end of a walk; nil when nobody waits for that
}

// add queues a purge, and tells whether the caller is to start the goroutine.
func (q *walks) add(p *purge) (start bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = append(q.queue, p)
	start = !q.running
	q.running = true
	return start
}

// take returns all that waits; with nothing waiting the goroutine's time is over. The last walk has ended.
func (q *walks) take() []*purge {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.end != nil {
		close(q.end)
		q.end = nil
	}
	queue := q.queue
	q.queue = nil
	q.running = len(queue) > 0
	return queue
}

// ended returns a channel that is closed at the end of the next walk, or a closed one if none runs.
func (q *walks) ended() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.end == nil {
		q.end = make(chan struct{})
	}
	end := q.end
	if !q.running {
		close(q.end)
		q.end = nil
	}
	return end
}

// walk is the goroutine.
func (c *Cache) walk() {
	defer c.work.leave()
	for purges := c.walks.take(); len(purges) > 0; purges = c.walks.take() {
		err := c.walkFor(purges)
		for _, p := range purges {
			if p.err = err; err == nil && !p.opt.DryRun {
				c.w.applied(p.rest)
			}
			c.finish(p)
		}
	}
}

// walkFor applies purges to the whole store.
func (c *Cache) walkFor(purges []*purge) (err error) {
	pace := pacer{since: time.Now()}
	c.w.walker.Walk(func(rec *Record) bool {
		pace.step()
		c.w.applyAll(purges, rec)
		err = context.Cause(c.base)
		return err == nil
	})
	return err
}

// replay goes on with the purges that an earlier process did not finish.
func (c *Cache) replay() error {
	if c.w.journal == nil {
		return nil
	}
	var p *purge
	for _, inv := range c.w.journal.Invalidations() {
		s, err := parseScope(inv.Scope)
		if err != nil {
			return fmt.Errorf("cache: journal of the store: %w", err)
		}
		if p == nil || p.seq != inv.Seq {
			c.resume(p)
			p = newPurge(nil, PurgeOptions{By: "journal", Soft: inv.Soft})
			p.seq, p.at, p.saved = inv.Seq, inv.At, true
			p.event.Selector, p.event.Value = scopeNames[s.kind], cutText(s.value, maxPurgeValue)
			c.seq.Bump(inv.Seq)
		}
		p.scopes = append(p.scopes, c.w.log.add(s, inv.Seq, inv.Soft, inv.At))
	}
	c.resume(p)
	return nil
}

// resume applies a purge that an earlier process had logged, if there is one.
func (c *Cache) resume(p *purge) {
	if p != nil {
		c.apply(p)
	}
}

// scopeNames are the words by which a journal knows the kinds. They are part of the disk tier's format.
var scopeNames = [numScopeKinds]string{
	scopeAll: "all", scopeHost: "host", scopeURL: "url", scopeTag: "tag", scopePrefix: "prefix", scopeGlob: "glob", scopeKey: "key",
}

// String is the scope as a journal keeps it.
func (s scope) String() string { return scopeNames[s.kind] + " " + s.value }

func parseScope(text string) (scope, error) {
	name, value, _ := strings.Cut(text, " ")
	for kind, n := range scopeNames {
		if n != "" && n == name {
			return scope{scopeKind(kind), value}, nil
		}
	}
	return scope{}, fmt.Errorf("unknown kind of invalidation %q", name)
}
