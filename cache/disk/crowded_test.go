package disk

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/swrproxy/swrproxy/cache/cachetest"
)

// When the file system has less room than the budget, records go, and that is told once for all of them and counted for each.
func TestCrowdedFileSystemIsTold(t *testing.T) {
	t.Parallel()
	const budget = 64 << 20
	var left atomic.Int64 // what others leave to the store
	left.Store(1 << 30)
	ev := newEvents()
	var s *Store
	s = open(t, Options{
		Max: budget, Notify: ev.notify,
		space: func(string) space { return space{free: left.Load() - s.gauges.onDisk.Load(), total: 1 << 30} },
	})
	record := func(i int) { put(t, s, cachetest.Record(fmt.Sprint("key/", i), uint64(i+1), 1<<20)) }
	for i := range 8 {
		record(i)
	}
	flushed(t, s)
	if m := s.Metrics(); m.Limit != budget || m.Crowded != 0 || len(ev.ch) != 0 {
		t.Errorf("with room: limit %d, crowded %d, %d events", m.Limit, m.Crowded, len(ev.ch))
	}
	left.Store(9 << 20)
	for i := 8; i < 12; i++ {
		record(i)
		flushed(t, s)
	}
	m := s.Metrics()
	if m.Limit >= budget || m.Crowded < 3 || m.Crowded != s.Stats().Evicted {
		t.Errorf("without room: limit %d of %d, crowded %d, evicted %d", m.Limit, int64(budget), m.Crowded, s.Stats().Evicted)
	}
	if len(ev.ch) != 1 {
		t.Fatalf("%d events, want 1", len(ev.ch))
	}
	if e := <-ev.ch; e.Kind != EventCrowded || !strings.Contains(e.Text, s.opt.Path) || !errors.Is(e.Err, errNoSpace) || e.Mend != mendSpace {
		t.Errorf("event %+v", e)
	}
	if _, ok := s.Get("key/11"); !ok {
		t.Error("the latest record is not there")
	}
}

// A budget that is used up is what was asked for, and nothing to tell.
func TestBudgetIsNoCrowd(t *testing.T) {
	t.Parallel()
	ev := newEvents()
	s := open(t, Options{Max: 8 << 20, Notify: ev.notify, space: func(string) space { return unknownSpace }})
	for i := range 20 {
		put(t, s, cachetest.Record(fmt.Sprint("key/", i), uint64(i+1), 1<<20))
		flushed(t, s)
	}
	if m := s.Metrics(); s.Stats().Evicted == 0 || m.Crowded != 0 || len(ev.ch) != 0 {
		t.Errorf("evicted %d, crowded %d, events %v", s.Stats().Evicted, m.Crowded, ev.kinds())
	}
}
