package server

import (
	"sync"
	"sync/atomic"
	"time"
)

// watch sees to it that loops are not late. Go's poller is asked when a processor has nothing else to do, else every ten milliseconds: with few of them, while
// a large heap is swept, say, or many handlers have work, the loops would hear of nothing for so long. Timers are looked at each time that a goroutine
// gives way. So a goroutine that one of them wakes lets those loops work that have not since the last time.
type watch struct {
	dozing  atomic.Bool   // there was no news for a while
	stirred chan struct{} // holds one; ends the doze
	stop    chan struct{}
	once    sync.Once // of end
}

const (
	// watchEvery is how late a loop may be, but for goroutines that do not give way. A look at a loop costs less than a microsecond.
	watchEvery = time.Millisecond
	// dozeAfter is after how many looks without news the watch waits for some.
	dozeAfter = 50
)

func newWatch() *watch {
	return &watch{stirred: make(chan struct{}, 1), stop: make(chan struct{})}
}

// run looks at the loops until stop is closed.
func (w *watch) run(loops []*loop) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for quiet := 0; ; quiet++ {
		if quiet > dozeAfter {
			tick.Stop()
			w.dozing.Store(true)
			select {
			case <-w.stirred:
			case <-w.stop:
				return
			}
			tick.Reset(watchEvery)
			quiet = 0
		}
		select {
		case <-tick.C:
		case <-w.stop:
			return
		}
		for _, l := range loops {
			if l.look() {
				quiet = 0
			}
		}
	}
}

// end stops run. A nil watch has none.
func (w *watch) end() {
	if w != nil {
		w.once.Do(func() { close(w.stop) })
	}
}

// stir ends a doze. It does not wait.
func (w *watch) stir() {
	if w.dozing.Load() && w.dozing.CompareAndSwap(true, false) {
		select {
		case w.stirred <- struct{}{}:
		default:
		}
	}
}

// look lets the loop work if it has not since the last look, and tells whether it had.
func (l *loop) look() (worked bool) {
	if n := l.worked.Load(); n != l.seen {
		l.seen = n
		return true
	}
	_ = l.raw.Control(l.late) // fails once it has stopped
	return false
}
