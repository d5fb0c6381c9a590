package cache

import "sync"

// gate counts the work that Close waits for. Once it is shut no more comes in. The zero value is open. Safe for concurrent use.
type gate struct {
	mu     sync.Mutex // guards following
	inside int
	closed bool
	empty  chan struct{} // made by shut, closed when nothing is inside
}

// enter lets one piece of work in, which ends with leave; false after shut.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.inside++
	return true
}

// more is enter for those who are inside: it is never refused.
func (g *gate) more() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside++
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	g.tellLocked()
}

// shut lets nothing more in. The channel is closed when all that is inside has left. Called once.
func (g *gate) shut() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed, g.empty = true, make(chan struct{})
	g.tellLocked()
	return g.empty
}

func (g *gate) tellLocked() {
	if g.closed && g.inside == 0 {
		close(g.empty)
	}
}
