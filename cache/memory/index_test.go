package memory

import (
	"math/rand/v2"
	"testing"
)

// An index says what a map would, however its entries crowd each other.
func TestIndexIsAMap(t *testing.T) {
	for name, hash := range map[string]func(*rand.Rand) uint64{
		"spread":     (*rand.Rand).Uint64,
		"crowded":    func(r *rand.Rand) uint64 { return r.Uint64N(300) },                                           // all at home in the first entry
		"at the end": func(r *rand.Rand) uint64 { return 1<<(64-shardBits) - 1 - r.Uint64N(8)<<32 - r.Uint64N(40) }, // in the last ones
	} {
		t.Run(name, func(t *testing.T) { likeAMap(t, hash) })
	}
}

func likeAMap(t *testing.T, hash func(*rand.Rand) uint64) {
	r := rand.New(rand.NewPCG(1, 2))
	var x index
	want := map[uint64]arrivalID{}
	var keys []uint64
	for n := range arrivalID(20_000) {
		h := hash(r)
		if len(keys) > 0 && r.IntN(2) == 0 {
			h = keys[r.IntN(len(keys))]
		}
		if r.IntN(5) < 2 {
			x.remove(h)
			delete(want, h)
		} else {
			x.put(h, n, place(n+1), moving)
			want[h] = n
			keys = append(keys, h)
		}
		checkEntry(t, &x, want, h)
		if n%1000 == 0 {
			for _, h := range keys {
				checkEntry(t, &x, want, h)
			}
		}
	}
	if x.used != len(want) {
		t.Errorf("%d entries are used, want %d", x.used, len(want))
	}
}

func checkEntry(t *testing.T, x *index, want map[uint64]arrivalID, h uint64) {
	t.Helper()
	e, id := x.find(h), want[h]
	_, there := want[h]
	if (e != nil) != there {
		t.Fatalf("%x is there: %t, want %t", h, e != nil, there)
	}
	if there && (e.id() != id || e.place() != place(id+1) || e.standing() != moving) {
		t.Fatalf("%x: %d at %d, want %d", h, e.id(), e.place(), id)
	}
}

// Asking moves a record on trial to wanted, and no other.
func TestEntryAsk(t *testing.T) {
	for from, want := range map[standing]standing{settled: settled, moving: moving, onTrial: wanted, wanted: wanted} {
		var e entry
		e.set(7, placeOf(3, 5), from)
		if was := e.ask(); was != from {
			t.Errorf("%d was %d", from, was)
		}
		if e.standing() != want || e.place().chunk() != 3 || e.place().at() != 5 || e.id() != 7 {
			t.Errorf("%d became %d at %d, want %d", from, e.standing(), e.place(), want)
		}
	}
}
