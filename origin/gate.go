package origin

import (
	"sync"
	"sync/atomic"
)

// gate counts what is going on and can be shut: nothing enters any more, and Idle is closed when the last one has left.
//
// Safe for concurrent use.
type gate struct {
	state atomic.Int64 // number inside, plus gateShut once shut
	once  sync.Once    // closes idle
	idle  chan struct{}
}

// gateShut is far above any number of exchanges.
const gateShut = 1 << 62

func newGate() *gate { return &gate{idle: make(chan struct{})} }

// enter reports whether the gate was open; if so, leave must follow.
func (g *gate) enter() bool {
	if g.state.Add(1)&gateShut == 0 {
		return true
	}
	g.leave()
	return false
}

func (g *gate) leave() {
	if g.state.Add(-1) == gateShut {
		g.once.Do(func() { close(g.idle) })
	}
}

// shut closes the gate; further calls do nothing.
func (g *gate) shut() {
	if old := g.state.Or(gateShut); old == 0 {
		g.once.Do(func() { close(g.idle) })
	}
}
