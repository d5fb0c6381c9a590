package origin

import (
	"runtime"
	"sync"
	"time"
)

// poller decides whether an exchange that is alone with its origin polls for the response before it sleeps. To sleep and to be woken takes as long as
// a near origin needs for its answer, on virtual machines longer; but a processor that polls does nothing else meanwhile. So an exchange polls
// only if the last ones were answered soon, while this process leaves its processors idle enough, and for a short time. Where polling was vain, as it is
// if the origin needs the same processor, it is tried ever more rarely.
//
// Safe for concurrent use.
type poller struct {
	cpu func() (used time.Duration, ok bool) // the process's CPU time; tests have their own

	mu     sync.Mutex    // guards following
	soon   int           // responses in a row that came within pollFor
	need   int           // how many have to before an exchange polls; 0: not learned yet
	seenAt time.Time     // when the load was looked at
	used   time.Duration // of the process's CPU time, until then
	polled time.Duration // of the CPU time since then
	busy   bool
}

const (
	// pollFor is how long one exchange polls at most: twice what an origin in the same rack takes for a small response.
	pollFor = 200 * time.Microsecond
	// soonFirst and soonMost bound poller.need. A vain poll for each five exchanges would cost much, one for each 4096 nothing.
	soonFirst, soonMost = 4, 4096
	// loadSpan is how often the load is looked at, at most: it takes a system call.
	loadSpan = time.Millisecond
)

// may tells whether an exchange that begins now may poll.
func (p *poller) may(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.soon >= max(p.need, soonFirst) && !p.busyLocked(now)
}

// busyLocked tells whether more than two thirds of the processors' time go to other things than polling.
func (p *poller) busyLocked(now time.Time) bool {
	span := now.Sub(p.seenAt)
	if span < loadSpan {
		return p.busy
	}
	used, ok := p.cpu()
	others := used - p.used - p.polled
	p.busy = !ok || others > time.Duration(runtime.GOMAXPROCS(0))*span/3*2
	p.seenAt, p.used, p.polled = now, used, 0
	return p.busy
}

// learn takes note of an exchange whose first bytes came after took, of which it polled for a part, or not at all.
func (p *poller) learn(took, polled time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.polled += polled
	need := max(p.need, soonFirst)
	if took > pollFor {
		p.soon = 0
		if polled > 0 {
			p.need = min(2*need, soonMost)
		}
		return
	}
	p.soon = min(p.soon+1, soonMost)
	if polled > 0 {
		p.need = need / 2
	}
}
