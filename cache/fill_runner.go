package cache

import (
	"sync/atomic"
	"time"
)

const (
	// maxResting bounds the goroutines that rest between two fills.
	maxResting = 64
	// restFor is how long one rests before it ends.
	restFor = time.Second
)

// runners are goroutines that run one fill after another. A fresh goroutine would grow its stack several times in every fill, copying what
// is on it.
//
// Safe for concurrent use.
type runners struct {
	next    chan *flight // a resting runner receives
	resting atomic.Int32
}

// run runs fl on a goroutine that is resting, or on a new one.
func (r *runners) run(fl *flight) {
	select {
	case r.next <- fl:
	default:
		go r.runner(fl)
	}
}

// runner ends when enough others rest, after a rest without a fill, or with the cache.
func (r *runners) runner(fl *flight) {
	closed := fl.c.base.Done()
	var rest *time.Timer
	for {
		fl.run()
		if r.resting.Add(1) > maxResting {
			r.resting.Add(-1)
			return
		}
		if rest == nil {
			rest = time.NewTimer(restFor)
		} else {
			rest.Reset(restFor)
		}
		select {
		case fl = <-r.next:
			rest.Stop()
			r.resting.Add(-1)
		case <-rest.C:
			r.resting.Add(-1)
			return
		case <-closed:
			rest.Stop()
			r.resting.Add(-1)
			return
		}
	}
}
