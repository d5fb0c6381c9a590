package fill

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

// The index against a map, with hashes that collide often.
func TestIndexIsAMap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var x index
	want := make(map[Key]*Lease)
	for step := range 50_000 {
		key := Key{ID: strconv.Itoa(r.IntN(300))}
		hash := uint32(len(key.ID)*7919) + uint32(key.ID[0])%5
		got := x.get(key, hash)
		if got != want[key] {
			t.Fatalf("step %d: get %v: %p, want %p", step, key, got, want[key])
		}
		grow := step/5000%2 == 0 // fills and empties in turns
		switch {
		case got == nil && grow:
			l := &Lease{key: key, hash: hash}
			x.put(l)
			want[key] = l
		case got != nil && !grow:
			if x.remove(&Lease{key: key, hash: hash}) {
				t.Fatal("removed another lease of the key")
			}
			if !x.remove(got) || x.remove(got) {
				t.Fatal("remove: want once")
			}
			delete(want, key)
		}
		if x.n != len(want) {
			t.Fatalf("step %d: %d leases, want %d", step, x.n, len(want))
		}
	}
	n := 0
	x.all(func(l *Lease) {
		n++
		if want[l.key] != l {
			t.Errorf("all: %v is not in the map", l.key)
		}
	})
	if n != len(want) {
		t.Errorf("all: %d leases, want %d", n, len(want))
	}
}

func TestIndexGivesMemoryBack(t *testing.T) {
	var x index
	var all []*Lease
	for i := range 10_000 {
		l := &Lease{key: Key{ID: strconv.Itoa(i)}, hash: uint32(i)}
		x.put(l)
		all = append(all, l)
	}
	for _, l := range all {
		x.remove(l)
	}
	if len(x.slots) > 8*minSlots {
		t.Errorf("%d slots for nothing", len(x.slots))
	}
}

// The heap against a sorted list.
func TestDeadlinesComeInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var d deadlines
	leases := make([]Lease, 500)
	at := make(map[*Lease]int64)
	for range 50_000 {
		l := &leases[r.IntN(len(leases))]
		if r.IntN(3) == 0 {
			d.remove(l)
			delete(at, l)
		} else {
			at[l] = r.Int64N(10_000)
			d.set(l, at[l])
		}
		first, ok := d.first()
		if ok != (len(at) > 0) {
			t.Fatalf("first: %v, with %d in the heap", ok, len(at))
		}
		if ok && at[first.l] != first.at {
			t.Fatalf("first at %d, want %d", first.at, at[first.l])
		}
	}
	var got []int64
	for first, ok := d.first(); ok; first, ok = d.first() {
		got = append(got, first.at)
		d.remove(first.l)
	}
	if len(got) != len(at) || !slices.IsSorted(got) {
		t.Errorf("%d of %d, in order: %v", len(got), len(at), slices.IsSorted(got))
	}
}
