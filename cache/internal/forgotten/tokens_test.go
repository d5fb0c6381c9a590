package forgotten

import "testing"

func TestTokens(t *testing.T) {
	set := New(3)
	set.Add(1, 10)
	set.Add(2, 20)
	set.Add(1, 5) // a lower one does not count
	set.Add(3, 30)
	for hash, want := range map[uint64]uint64{1: 10, 2: 20, 3: 30, 4: 0} {
		if got := set.Floor(hash); got != want {
			t.Errorf("floor of %d: %d, want %d", hash, got, want)
		}
	}
	set.Add(4, 40) // displaces 1, the oldest
	set.Add(5, 50) // displaces 2
	for hash, want := range map[uint64]uint64{1: 0, 2: 0, 3: 30, 4: 40, 5: 50} {
		if got := set.Floor(hash); got != want {
			t.Errorf("after displacement: floor of %d: %d, want %d", hash, got, want)
		}
	}
}
