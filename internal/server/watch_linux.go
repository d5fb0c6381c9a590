package server

import (
	"context"
	"sync/atomic"
	"time"
)

// watch sees to it that loops are not late. Go's poller is asked when a processor has nothing else to do, else every ten milliseconds: with few of them, while
// a large heap is swept, say, or many handlers have work, the loops would hear of nothing for so long. Timers are looked at each time that a goroutine
// gives way. So a goroutine that one of them wakes lets those loops work that have not since the last time.
type watch struct {
	dozing  atomic.Bool   // there was no news for a while
	stirred chan struct{} // holds one; ends the doze
}

const (
	// watchEvery is how long a loop may be kept waiting before that is noticed, but for goroutines that do not give way; once it was, watchCloser holds, until a
	// loop has not been late in closeLooks looks. A look at a loop costs less than a microsecond, but each tick also wakes a processor that rests.
	watchEvery  = 4 * time.Millisecond
	watchCloser = time.Millisecond / 2
	closeLooks  = 100
	// dozeAfter is after how many looks without news the watch waits for some.
	dozeAfter = 50
)

func newWatch() *watch { return &watch{stirred: make(chan struct{}, 1)} }

// run looks at the loops until life ends.
func (w *watch) run(life context.Context, loops []*loop) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for quiet, closer := 0, 0; ; quiet++ {
		if quiet > dozeAfter && closer == 0 {
			tick.Stop()
			if !w.doze(life) {
				return
			}
			tick.Reset(watchEvery)
			quiet = 0
		}
		select {
		case <-tick.C:
		case <-life.Done():
			return
		}
		switch lookAll(loops) {
		case loopLate:
			quiet, closer = 0, closeLooks
			tick.Reset(watchCloser)
			continue
		case loopBusy:
			quiet = 0
		}
		if closer > 0 {
			if closer--; closer == 0 {
				tick.Reset(watchEvery)
			}
		}
	}
}

// doze waits for news, and returns false if life ends.
func (w *watch) doze(life context.Context) bool {
	w.dozing.Store(true)
	select {
	case <-w.stirred:
		return true
	case <-life.Done():
		return false
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

// looked is what a look at a loop has shown, the most noteworthy last. A closed enum.
type looked int

const (
	// loopIdle: there is no news.
	loopIdle looked = iota
	// loopBusy: it has worked since the last look.
	loopBusy
	// loopLate: it has not, though there was news.
	loopLate
)

func lookAll(loops []*loop) (most looked) {
	for _, l := range loops {
		most = max(most, l.look())
	}
	return most
}

// look lets the loop work if it has not since the last look.
func (l *loop) look() looked {
	if l.hasWorked() {
		return loopBusy
	}
	_ = l.raw.Control(l.late) // fails once it has stopped
	if l.hasWorked() {
		return loopLate
	}
	return loopIdle
}

func (l *loop) hasWorked() bool {
	before := l.seen
	l.seen = l.worked.Load()
	return l.seen != before
}
