package memory

import (
	"fmt"
	"testing"

	"github.com/swrproxy/swrproxy/cache/cachetest"
)

// heldNow are all records that s holds.
func heldNow(s *Store) (list []*held) {
	s.tier.IterValues(func(h *held) bool {
		list = append(list, h)
		return false
	})
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.RLock()
		for _, a := range sh.arrived {
			if a.in.rec != nil {
				list = append(list, a.in)
			}
		}
		sh.mu.RUnlock()
	}
	return list
}

// settleAll has the settler do all that there is to do.
func settleAll(s *Store) {
	s.settle.pass(s)
	for s.settle.step(s) {
	}
}

// packing tells how many records are on their own, how many in segments, and how many slots those segments have.
func packing(t *testing.T, s *Store) (alone, packed, slots int) {
	t.Helper()
	segments := map[*segment]int{}
	for _, h := range heldNow(s) {
		switch {
		case h.gone():
			t.Errorf("%s is held and counts as gone", h.rec.Key)
		case h.alone():
			alone++
		default:
			segments[h.seg.Load()]++
		}
	}
	for g, n := range segments {
		packed, slots = packed+n, slots+len(g.slots)
		if live := int(g.live.Load()); live != n {
			t.Errorf("a segment holds %d records and counts %d", n, live)
		}
	}
	return alone, packed, slots
}

func TestRecordsArePacked(t *testing.T) {
	const n = 5000
	s := open(t, 64<<20)
	for i := range n {
		s.Put(plain(i))
	}
	settleAll(s)
	alone, packed, _ := packing(t, s)
	if alone >= segmentSlots || alone+packed != n {
		t.Errorf("%d records on their own and %d in segments, of %d", alone, packed, n)
	}
	for i := range n {
		want := plain(i)
		r, ok := s.Get(want.Key)
		if !ok || r.Token != want.Token || r.Fields.Block() != want.Fields.Block() || r.Body.Size() != want.Body.Size() {
			t.Fatalf("%q: %v, %t", want.Key, r, ok)
		}
	}
}

// Where many were deleted or replaced, the rest is packed anew.
func TestSparseSegmentsArePackedAnew(t *testing.T) {
	const n = 20_000
	s := open(t, 128<<20)
	for i := range n {
		s.Put(plain(i))
	}
	for i := range n {
		switch i % 5 {
		case 0:
		case 1:
			r := plain(i)
			r.Token += n
			s.Put(r)
		default:
			s.Delete(plain(i).Key, n)
		}
	}
	settleAll(s)
	_, packed, slots := packing(t, s)
	if slots*sparseBelow > packed*sparseOf {
		t.Errorf("segments with %d slots hold %d records", slots, packed)
	}
	if st := s.Stats(); st.Records != n*2/5 {
		t.Errorf("%d records, want %d", st.Records, n*2/5)
	}
	for i := range n {
		if _, ok := s.Get(plain(i).Key); ok != (i%5 < 2) {
			t.Fatalf("record %d is there: %t", i, ok)
		}
	}
}

// A full store packs what it keeps, and what waits on probation.
func TestFullStoreStaysPacked(t *testing.T) {
	s := open(t, 4<<20)
	hot := fillHot(t, s)
	for i := range 2000 {
		s.Put(cachetest.Record(fmt.Sprintf("cold/%d", i), 1, 1000))
		readHot(s, i%hot)
	}
	settleAll(s)
	cachetest.CheckInvariants(t, s)
	alone, packed, slots := packing(t, s)
	if alone >= 2*segmentSlots || slots*sparseBelow > packed*sparseOf {
		t.Errorf("%d records on their own, %d in segments with %d slots", alone, packed, slots)
	}
	trials := 0
	for i := range s.shards {
		trials += len(s.shards[i].arrived)
	}
	if trials == 0 {
		t.Error("nothing is on probation: the test shows nothing of it")
	}
	t.Logf("%d on probation; %d on their own, %d in %d slots", trials, alone, packed, slots)
}
