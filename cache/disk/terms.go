package disk

import (
	"cmp"
	"slices"
	"sort"

	"go.etcd.io/bbolt"

	"github.com/swrproxy/swrproxy/cache"
)

// The index of terms says which keys may have a record with a term: pairs of the term's hash and the key's. It lists too much rather than too
// little; what it lists is compared with the record's own terms.
//
// Its pairs are in the order of their hashes, so each new one would cost a page of its own. So changes go to the end of a log, where a page
// takes a hundred, and into memory, where Find looks. When many have gathered there, a stretch of them moves into the bucket, the one after
// another; what a whole pass has covered leaves the log.

const (
	// pendingMin and pendingMax bound how many changes wait in memory, 16 bytes each, and pendingShare how many compared with what is in the
	// bucket. More are settled, a sixteenth of that at a time.
	pendingMin, pendingMax = 512, 64 << 10
	pendingShare           = 4
	// logBlock is the length at which a block of the log is full: two fill a page of 4 KiB.
	logBlock = 125 * pairSize
)

func (st *state) pendingLimit() int {
	return int(min(max(st.terms/pendingShare, pendingMin), pendingMax))
}

// termHash is the hash of a term in the index.
func (s *Store) termHash(term string) uint64 { return termHash(s.seed, term) }

func termHash(seed uint64, term string) uint64 { return hashKey(seed, term) &^ goneBit }

// termsOf are the hashes of a record's terms; nil if it has none.
func termsOf(seed uint64, r *cache.Record) (list []uint64) {
	if !r.HasTerms() {
		return nil
	}
	list = make([]uint64, 0, len(r.Tags)+1)
	for term := range r.Terms() {
		list = append(list, termHash(seed, term))
	}
	return list
}

func hasTerm(r *cache.Record, term string) bool {
	for t := range r.Terms() {
		if t == term {
			return true
		}
	}
	return false
}

// runs are changes of the index of terms that its bucket does not show yet: lists in the order of their names, the newer the later.
// Immutable: readers share them with the writer.
type runs [][]pair

// add returns runs with one more. Each is at least half as long as the one before, so there are few.
func (r runs) add(list []pair) runs {
	out := append(slices.Clone(r), list)
	for n := len(out); n > 1 && len(out[n-2]) < 2*len(out[n-1]); n = len(out) {
		out = append(out[:n-2], mergeRuns(out[n-2], out[n-1]))
	}
	return out
}

// len counts changes; one of a pair that has changed again may count twice.
func (r runs) len() (n int) {
	for _, list := range r {
		n += len(list)
	}
	return n
}

// all returns the changes as one list.
func (r runs) all() (list []pair) {
	for _, run := range slices.Backward(r) { // the shortest first
		list = mergeRuns(run, list)
	}
	return list
}

// of returns the changes of a term.
func (r runs) of(term uint64) (list []pair) {
	for _, run := range r {
		lo := searchPairs(run, pair{term, 0})
		hi := lo + sort.Search(len(run)-lo, func(i int) bool { return run[lo+i].hash&^goneBit != term })
		if lo < hi {
			list = mergeRuns(list, run[lo:hi])
		}
	}
	return list
}

// take returns n changes from a name on, or those that are left, and all others. next is the name after them; more is false at the end.
func (r runs) take(from pair, n int) (list []pair, rest runs, next pair, more bool) {
	all := r.all()
	i := searchPairs(all, from)
	j := min(i+n, len(all))
	if more = j < len(all); more {
		next = byBoth.name(all[j])
	}
	return all[i:j], runs{slices.Concat(all[:i], all[j:])}, next, more
}

// searchPairs returns where p is or would be in a list.
func searchPairs(list []pair, p pair) int {
	i, _ := slices.BinarySearchFunc(list, p, byBoth.compare)
	return i
}

// mergeRuns makes one list of two.
func mergeRuns(older, newer []pair) []pair {
	switch {
	case len(older) == 0:
		return newer
	case len(newer) == 0:
		return older
	}
	out := make([]pair, 0, len(older)+len(newer))
	for len(older) > 0 && len(newer) > 0 {
		switch {
		case byBoth.less(older[0], newer[0]):
			out, older = append(out, older[0]), older[1:]
		case byBoth.less(newer[0], older[0]):
			out, newer = append(out, newer[0]), newer[1:]
		default:
			older = older[1:]
		}
	}
	return append(append(out, older...), newer...)
}

// listing is a change of the index of terms in the order in which a transaction made it.
type listing struct {
	pair
	n int
}

func compareListings(a, b listing) int {
	if order := byBoth.compare(a.pair, b.pair); order != 0 {
		return order
	}
	return cmp.Compare(a.n, b.n)
}

// list notes that the record of h has these terms.
func (t *txn) list(h uint64, terms []uint64) {
	for _, term := range terms {
		t.listings = append(t.listings, listing{pair{term, h}, len(t.listings)})
	}
}

// unlist notes that v is not the value of the record of h any more. The terms of a damaged one stay listed.
func (t *txn) unlist(h uint64, v []byte) {
	for _, term := range t.termsAt(v) {
		t.listings = append(t.listings, listing{pair{term | goneBit, h}, len(t.listings)})
	}
}

// termsAt are the hashes of the terms of the record whose value is v; nil if it is damaged.
func (t *txn) termsAt(v []byte) []uint64 {
	var r cache.Record
	if _, err := decodeNames(&r, v); err != nil {
		return nil
	}
	return termsOf(t.st.seed, &r)
}

// changes are what is left of listings in the end, in the order of their names. What was there before, went and came again has not changed:
// most records that are stored again have the terms that they had.
func (t *txn) changes() []pair {
	slices.SortFunc(t.listings, compareListings)
	list := make([]pair, 0, len(t.listings))
	for i, j := 0, 0; i < len(t.listings); i = j {
		first := t.listings[i].pair
		for j = i + 1; j < len(t.listings) && byBoth.compare(first, t.listings[j].pair) == 0; j++ {
		}
		if last := t.listings[j-1].pair; !byBoth.gone(first) || byBoth.gone(last) {
			list = append(list, last)
		}
	}
	return list
}

// saveTerms brings what the transaction changed in the index of terms into the log, and some of what waits into the bucket.
func (t *txn) saveTerms() error {
	if len(t.listings) == 0 {
		return nil
	}
	list := t.changes()
	if len(list) == 0 {
		return nil
	}
	if err := t.appendLog(list); err != nil {
		return err
	}
	t.pending = t.pending.add(list)
	return t.settleTerms(len(list))
}

// appendLog puts changes at the end of the log, whose last block is filled first.
func (t *txn) appendLog(list []pair) error {
	t.buf = append(t.buf[:0], get64(t.termLog, t.st.log)...)
	for _, p := range list {
		if len(t.buf) >= logBlock {
			if err := put64(t.termLog, t.st.log, t.keep(t.buf)); err != nil {
				return err
			}
			t.st.log++
			t.buf = t.buf[:0]
		}
		t.buf = appendPair(t.buf, p)
	}
	return put64(t.termLog, t.st.log, t.keep(t.buf))
}

// settleTerms moves changes into the bucket while more wait than should: not many more than came, since after a start all in the log wait.
func (t *txn) settleTerms(came int) error {
	limit := t.st.pendingLimit()
	for stretch := limit / settleShare; came > -stretch && t.pending.len() > limit; came -= stretch {
		list, rest, next, more := t.pending.take(t.st.settledTerm, stretch)
		grown, err := t.change(t.terms, list, false)
		if err != nil {
			return err
		}
		t.st.terms += uint64(grown)
		t.pending, t.st.settledTerm = rest, next
		if !more {
			if err := t.trimLog(); err != nil {
				return err
			}
		}
	}
	return nil
}

// trimLog ends a pass over all names: what was in the log when it began is in the bucket.
func (t *txn) trimLog() error {
	var blocks []uint64
	c := t.termLog.Cursor()
	for k, _ := c.First(); k != nil && be64(k) < t.st.pass; k, _ = c.Next() {
		blocks = append(blocks, be64(k))
	}
	for _, n := range slices.Backward(blocks) { // so that what follows in a page need not move
		if err := delete64(t.termLog, n); err != nil {
			return err
		}
	}
	t.st.pass = t.st.log
	return nil
}

// loadTerms reads the log.
func loadTerms(tx *bbolt.Tx) runs {
	var list []listing
	_ = tx.Bucket(bucketTermLog).ForEach(func(_, block []byte) error { // fails on nothing
		for i := range len(block) / pairSize {
			list = append(list, listing{pairAt(block, i), len(list)})
		}
		return nil
	})
	slices.SortFunc(list, compareListings)
	out := make([]pair, 0, len(list))
	for i, l := range list {
		if i+1 == len(list) || byBoth.compare(l.pair, list[i+1].pair) != 0 {
			out = append(out, l.pair)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return runs{out}
}
