package disk

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"go.etcd.io/bbolt"
)

// The index of terms, against a set: after each of many transactions both know the same, also when memory is read anew from the log, and the log
// does not grow.
func TestTermsModel(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	ix, err := openIndex(t.TempDir(), minMax, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ix.db.Close()
	ix.db.NoSync = true // nothing is read after a crash
	hashes := []uint64{0, 1, 2, lastPair.hash - 1, lastPair.hash}
	for range 120 {
		hashes = append(hashes, random.Uint64())
	}
	model, memory := map[pair]bool{}, scratch{}
	most := 0
	for round := range 150 {
		gone := random.IntN(10) * 10 // percent
		err := ix.db.Update(func(tx *bbolt.Tx) error {
			tr := newTxn(tx, ix.st, ix.pending, &memory)
			for range random.IntN(1 << (1 + round%12)) {
				p := pair{hashes[random.IntN(len(hashes))] &^ goneBit, hashes[random.IntN(len(hashes))]}
				if model[p] && random.IntN(100) < gone {
					delete(model, p)
					tr.listings = append(tr.listings, listing{pair{p.hash | goneBit, p.at}, len(tr.listings)})
				} else {
					model[p] = true
					tr.list(p.at, []uint64{p.hash})
				}
			}
			err := tr.saveTerms()
			ix.st, ix.pending = tr.st, tr.pending
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		_ = ix.db.View(func(tx *bbolt.Tx) error { // fails on nothing
			term := hashes[random.IntN(len(hashes))] &^ goneBit
			wantTerms(t, tx, ix.pending, model, term)
			wantTerms(t, tx, loadTerms(tx), model, term)
			n := 0
			_ = tx.Bucket(bucketTermLog).ForEach(func(_, v []byte) error { n += len(v) / pairSize; return nil })
			most = max(most, n)
			if random.IntN(5) == 0 {
				ix.pending = loadTerms(tx)
			}
			return nil
		})
		if t.Failed() {
			t.Fatalf("after round %d", round)
		}
	}
	limit := ix.st.pendingLimit()
	t.Logf("at most %d changes in the log, limit %d", most, limit)
	if most > 3*limit+2<<12 {
		t.Errorf("the log had %d changes, of which %d may wait", most, limit)
	}
}

func wantTerms(t *testing.T, tx *bbolt.Tx, pending runs, model map[pair]bool, term uint64) {
	t.Helper()
	terms := groups{tx.Bucket(bucketTerms), byBoth}
	got := slices.Collect(byBoth.present(sourceOf(pending.all()), terms.from(pair{}).next))
	want := slices.SortedFunc(maps.Keys(model), func(a, b pair) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.at, b.at))
	})
	if !slices.Equal(got, want) {
		t.Errorf("%d entries, want %d, or others", len(got), len(want))
	}
	for _, term := range []uint64{0, term, lastPair.hash &^ goneBit} {
		var got []pair
		for p := range byBoth.present(sourceOf(pending.of(term)), terms.from(pair{term, 0}).next) {
			if p.hash != term {
				break
			}
			got = append(got, p)
		}
		want := slices.DeleteFunc(slices.Clone(want), func(p pair) bool { return p.hash != term })
		if !slices.Equal(got, want) {
			t.Errorf("%x has %d entries, want %d, or others", term, len(got), len(want))
		}
	}
	for i, run := range pending {
		if !slices.IsSortedFunc(run, byBoth.compare) || i > 0 && len(pending[i-1]) < 2*len(run) {
			t.Errorf("run %d of %d entries is out of order, or too long", i, len(run))
		}
	}
	for _, p := range groupsOf(t, terms) {
		if byBoth.gone(p) {
			t.Errorf("the bucket has %x, which is gone", p)
		}
	}
}
