package disk

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
)

// The index, against a map: after each of many transactions both know the same, and the groups are as they should be.
func TestIndexModel(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	ix, err := openIndex(t.TempDir(), minMax, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	db, st := ix.db, ix.st
	defer db.Close()
	db.NoSync = true // nothing is read after a crash
	hashes := []uint64{0, 1, lastPair.hash - 1, lastPair.hash}
	for range 6000 {
		hashes = append(hashes, random.Uint64())
	}
	model, memory := map[uint64]location{}, scratch{}
	for round := range 150 {
		gone := random.IntN(10) * 10 // percent
		err := db.Update(func(tx *bbolt.Tx) error {
			tr := newTxn(tx, st, nil, &memory)
			for range random.IntN(1 << (1 + round%12)) {
				h, l := hashes[random.IntN(len(hashes))], location(random.Uint64())
				if model[h] = l; random.IntN(100) < gone {
					l = 0
					delete(model, h)
				}
				tr.setLocation(h, l)
				if got := tr.locate(h); got != l {
					t.Errorf("within the transaction %x is at %d, want %d", h, got, l)
				}
			}
			tr.st.records = uint64(len(model))
			err := tr.index()
			st = tr.st
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		_ = db.View(func(tx *bbolt.Tx) error { // fails on nothing
			wantIndex(t, tx, model, hashes[random.IntN(len(hashes))])
			wantGroups(t, tx, st)
			return nil
		})
		if t.Failed() {
			t.Fatalf("after round %d", round)
		}
	}
}

func wantIndex(t *testing.T, tx *bbolt.Tx, model map[uint64]location, from uint64) {
	t.Helper()
	if diff := cmp.Diff(model, maps.Collect(locations(tx, 0))); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
	var want, got []uint64
	for _, h := range slices.Sorted(maps.Keys(model)) {
		if h >= from {
			want = append(want, h)
		}
	}
	for h := range locations(tx, from) {
		got = append(got, h)
	}
	if !slices.Equal(want, got) {
		t.Errorf("from %x: %d entries, want %d, or another order", from, len(got), len(want))
	}
	for h, l := range model {
		recent, records := locationIndex(tx)
		if at := locate(recent, records, h); at != l {
			t.Errorf("%x is at %d, want %d", h, at, l)
		}
	}
}

func wantGroups(t *testing.T, tx *bbolt.Tx, st state) {
	t.Helper()
	recent := groupsOf(t, groups{tx.Bucket(bucketRecent), byHash})
	if got := uint64(len(recent)); got != st.recent || got > st.recentLimit() {
		t.Errorf("recent has %d entries, the state says %d, the limit is %d", got, st.recent, st.recentLimit())
	}
	for _, p := range groupsOf(t, groups{tx.Bucket(bucketRecords), byHash}) {
		if p.at == 0 {
			t.Errorf("records has %x, which is gone", p.hash)
		}
	}
}

// groupsOf checks the groups of a bucket and returns their entries.
func groupsOf(t *testing.T, g groups) (list []pair) {
	t.Helper()
	_ = g.ForEach(func(k, group []byte) error { // fails on nothing
		if n := len(group); n == 0 || n > groupSize || n%pairSize != 0 || len(k) != g.keySize {
			t.Errorf("group %x of %d bytes", k, n)
		}
		for i := range len(group) / pairSize {
			p := pairAt(group, i)
			if n := len(list); g.compare(p, g.lastOf(k)) > 0 || n > 0 && g.compare(p, list[n-1]) <= 0 {
				t.Errorf("%x in group %x is out of order", p, k)
			}
			list = append(list, p)
		}
		return nil
	})
	return list
}

// A group that was cut or is not one at all is read as far as it goes.
func TestDamagedGroups(t *testing.T) {
	t.Parallel()
	ix, err := openIndex(t.TempDir(), minMax, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	db := ix.db
	defer db.Close()
	whole := appendPair(appendPair(nil, pair{5, 50}), pair{7, 70})
	for n := range len(whole) {
		err := db.Update(func(tx *bbolt.Tx) error {
			if err := put64(tx.Bucket(bucketRecent), lastPair.hash, whole[:n]); err != nil {
				return err
			}
			got := maps.Collect(locations(tx, 0))
			if len(got) != n/pairSize {
				t.Errorf("%d bytes: %v", n, got)
			}
			if e, ok := (groups{tx.Bucket(bucketRecent), byHash}).lookup(pair{hash: 7}); ok {
				t.Errorf("%d bytes: found at %d", n, e.at)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
