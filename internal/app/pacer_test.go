package app

import (
	"runtime"
	"slices"
	"testing"
)

func TestPercentFor(t *testing.T) {
	for live, want := range map[uint64]int{
		0: 12800, 1 << 20: 12800, 32 << 20: 400, 100 << 20: 128, 128 << 20: 100, 256 << 20: 50, 512 << 20: 25, 1 << 30: 25, 2 << 30: 62, 64 << 30: 98,
	} {
		if got := (&pacer{budget: 1 << 30, between: 128 << 20}).percentFor(live); got != want {
			t.Errorf("%d bytes alive: %d %%, want %d %%", live, got, want)
		}
	}
}

// The percentage follows the heap, is left alone for small changes, and is the usual one after close.
func TestPacerFollowsTheHeap(t *testing.T) {
	var live uint64
	var set []int
	p := &pacer{budget: 1 << 30, between: 128 << 20, percent: usualPercent, live: func() uint64 { return live }, set: func(percent int) int {
		set = append(set, percent)
		return 0
	}}
	for _, mib := range []uint64{32, 33, 64, 120, 128, 500} {
		live = mib << 20
		if !p.adapt() {
			t.Fatal("the pacer has stopped")
		}
	}
	p.adapt()
	live = 64 << 20
	p.adapt()
	p.close()
	if p.adapt() {
		t.Error("the pacer goes on after close")
	}
	if want := []int{400, 200, 106, 25, 200, 100}; !slices.Equal(set, want) {
		t.Errorf("set %v, want %v", set, want)
	}
}

// Each collection paces the next.
func TestPacerRunsAtEachCollection(t *testing.T) {
	looked := make(chan struct{}, 1)
	p := &pacer{percent: usualPercent, live: func() uint64 {
		select {
		case looked <- struct{}{}:
		default:
		}
		return 1 << 20
	}, set: func(int) int { return 0 }}
	defer p.close()
	p.watch()
	for range 3 {
		runtime.GC()
		<-looked
	}
}
