package cache

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestPacerRestsAfterWork: a purge rests by the time that it worked, not by what it passed.
func TestPacerRestsAfterWork(t *testing.T) {
	for name, c := range map[string]struct {
		each  time.Duration // work for a record
		steps int
		rests int
	}{
		"records that take no time": {0, 100 * purgeLook, 0},
		"costly records":            {purgeWork, 4 * purgeLook, 4},
		"cheap records":             {purgeWork/(2*purgeLook) + 1, 10 * purgeLook, 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				p := pacer{since: start}
				for range c.steps {
					time.Sleep(c.each)
					p.step()
				}
				rested := time.Since(start) - time.Duration(c.steps)*c.each
				if want := time.Duration(c.rests) * purgePause; rested != want {
					t.Errorf("rested %v, want %v", rested, want)
				}
			})
		})
	}
}
