package disk

import "sync"

// touchedMax is how many recently read keys are remembered for certain; up to twice as many are in all.
const touchedMax = 64 << 10

// touched remembers which keys were read lately, in two generations. Eviction gives them a second chance, so that a read
// writes nothing. Safe for concurrent use.
type touched struct {
	mu       sync.Mutex // guards following
	now, old map[uint64]struct{}
}

func (t *touched) add(h uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now == nil || len(t.now) >= touchedMax {
		t.old, t.now = t.now, make(map[uint64]struct{})
	}
	t.now[h] = struct{}{}
}

// take tells whether h was read since it was last asked for.
func (t *touched) take(h uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, now := t.now[h]
	_, old := t.old[h]
	delete(t.now, h)
	delete(t.old, h)
	return now || old
}
