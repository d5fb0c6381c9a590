package app

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

const (
	// betweenShare is the part of memory.max that is allocated before the next collection, at least, while the memory limit allows it. A small heap
	// would be collected several times a second otherwise, and each time every goroutine that allocates has to help before it goes on.
	// More would scatter the records among more garbage: at a half of this they take 0.15 KiB each beyond their size when the process rests, at
	// twice this 0.36 (measured with 100,000 of 1 KiB).
	betweenShare = 8
	// mostBetween bounds it: collections are rare enough then.
	mostBetween = 256 << 20
	// recordsShare is by how much records may grow, a quarter of them: most are nothing that the collector has to look into, so that it may come more
	// often than after they have doubled, as Go would have it, and finds less to clear away.
	recordsShare = 4
	// usualPercent is Go's own: a collection when the heap has doubled. It is for what is not records.
	usualPercent = 100
)

// pacer sets the collector's percentage anew after each collection. The memory limit goes before it, and GOGC in the environment, if set, wins.
// Safe for concurrent use.
type pacer struct {
	budget  uint64        // bytes that records may take
	between uint64        // bytes from one collection to the next, at least
	live    func() uint64 // bytes that the last collection left
	set     func(percent int) (before int)
	percent int // as last set; of the finalizer's goroutine
	stopped atomic.Bool
}

// newPacer starts a pacer for a process whose records may take budget bytes.
func newPacer(budget int64) *pacer {
	between := min(uint64(budget)/betweenShare, mostBetween)
	p := &pacer{budget: uint64(budget), between: between, live: liveBytes, set: debug.SetGCPercent, percent: usualPercent}
	if os.Getenv("GOGC") == "" {
		p.watch()
	}
	return p
}

// watch has adapt called after each collection.
func (p *pacer) watch() { runtime.SetFinalizer(&cycle{p}, (*cycle).over) }

// cycle is garbage from the beginning, so that each collection calls its finalizer.
type cycle struct{ p *pacer }

func (c *cycle) over() {
	if c.p.adapt() {
		runtime.SetFinalizer(c, (*cycle).over)
	}
}

// adapt sets the percentage if it should differ noticeably; false after close.
func (p *pacer) adapt() bool {
	if p.stopped.Load() {
		if p.percent != usualPercent {
			p.set(usualPercent)
		}
		return false
	}
	want := p.percentFor(p.live())
	if diff := want - p.percent; diff > p.percent/8 || -diff > p.percent/8 {
		p.set(want)
		p.percent = want
	}
	return true
}

// percentFor is the percentage at which a heap with so many bytes alive grows by between, or by what is said above if that is more.
func (p *pacer) percentFor(live uint64) int {
	live = max(live, 1<<20)
	records := min(live, p.budget)
	grow := max(p.between, live-records+records/recordsShare)
	return int(max(grow/live*100+grow%live*100/live, 1))
}

// close ends the pacing at the next collection.
func (p *pacer) close() { p.stopped.Store(true) }

func liveBytes() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
