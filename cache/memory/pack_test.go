package memory

import (
	"fmt"
	"testing"

	"github.com/swrproxy/swrproxy/cache/cachetest"
)

// settleAll has the settler do all that there is to do.
func settleAll(s *Store) {
	s.settle.pass(s)
	for s.settle.step(s) {
	}
}

// packing tells how many records are on their own, how many in segments, and how many slots those segments have.
func packing(t *testing.T, s *Store) (alone, packed, slots int) {
	t.Helper()
	named := map[uint32]int{}
	for i := range s.shards {
		for j := range s.shards[i].index.entries {
			if p := s.shards[i].index.entries[j].place(); p != 0 {
				named[p.chunk()]++
			}
		}
	}
	for number, n := range named {
		c := s.chunks.at(number)
		if live := int(c.live.Load()); live != n {
			t.Errorf("a chunk holds %d records and counts %d", n, live)
		}
		if len(c.records.Places()) == 1 {
			alone++
			continue
		}
		packed, slots = packed+n, slots+len(c.records.Places())
	}
	if used := int(s.chunks.next) - len(s.chunks.free); used != len(named) {
		t.Errorf("%d chunks are in use, %d of them named", used, len(named))
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
		for j := range s.shards[i].index.entries {
			if e := &s.shards[i].index.entries[j]; e.place() != 0 && e.standing() >= onTrial {
				trials++
			}
		}
	}
	if trials == 0 {
		t.Error("nothing is on probation: the test shows nothing of it")
	}
	t.Logf("%d on probation; %d on their own, %d in %d slots", trials, alone, packed, slots)
}
