package app

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Memory is given back once for each time of rest after work, and not while there is work.
func TestMemoryIsGivenBackAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var allocated atomic.Uint64
		var trims atomic.Int64
		tr := newTrimmer()
		tr.allocated = func() uint64 { return allocated.Load() }
		tr.free = func() { trims.Add(1) }
		go tr.run()
		defer tr.close()
		work := func(bytes uint64, want int64) {
			t.Helper()
			allocated.Add(bytes)
			time.Sleep(trimEvery)
			synctest.Wait()
			if n := trims.Load(); n != want {
				t.Errorf("%d trims, want %d", n, want)
			}
		}
		work(100<<20, 0) // busy
		work(100<<20, 0)
		work(1<<10, 1) // at rest
		work(1<<10, 1) // once is enough
		work(2<<20, 1)
		work(1<<10, 1) // too little has been done since
		work(20<<20, 1)
		work(0, 2)
	})
}

func TestAllocatedBytesGrow(t *testing.T) {
	before := allocatedBytes()
	sink = make([]byte, 1<<20)
	if after := allocatedBytes(); after < before+1<<20 {
		t.Errorf("%d bytes allocated before a MiB more, %d after", before, after)
	}
}

var sink []byte
