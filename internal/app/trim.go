package app

import (
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// trimEvery is how often the process looks whether it rests.
	trimEvery = 5 * time.Second
	// restRate is how many bytes may be allocated in trimEvery by a process that rests.
	restRate = 1 << 20
	// trimWorth is how many bytes must have been allocated since the last trim to make another worth a collection.
	trimWorth = 16 << 20
)

// trimmer gives memory back to the system when the process rests after work: a cache that was filled keeps what it holds, not the
// headroom that the collector needed meanwhile. It costs one collection for each time of rest. Not safe for concurrent use.
type trimmer struct {
	last, trimmed uint64 // bytes allocated so far, at the last look and at the last trim
	allocated     func() uint64
	free          func()
	stop, done    chan struct{}
}

func newTrimmer() *trimmer {
	return &trimmer{allocated: allocatedBytes, free: debug.FreeOSMemory, stop: make(chan struct{}), done: make(chan struct{})}
}

// run looks every trimEvery until close.
func (t *trimmer) run() {
	defer close(t.done)
	tick := time.NewTicker(trimEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			t.look()
		case <-t.stop:
			return
		}
	}
}

func (t *trimmer) look() {
	now := t.allocated()
	resting := now-t.last <= restRate
	t.last = now
	if resting && now-t.trimmed >= trimWorth {
		t.free()
		t.trimmed = now
	}
}

// close ends run and waits for it.
func (t *trimmer) close() {
	close(t.stop)
	<-t.done
}

func allocatedBytes() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
