package fill

// index finds leases by key: a hash table with linear probing. The hash stands beside the lease, so that neither a look at another
// key's slot nor growing touches a lease. Not safe for concurrent use.
type index struct {
	slots []slot // length is 0 or a power of two; at least a quarter is empty
	n     int
}

type slot struct {
	l    *Lease // nil: empty
	hash uint32
}

// minSlots is where an index starts and how small it shrinks.
const minSlots = 8

// home is where a hash is looked for first.
func (x *index) home(hash uint32) int {
	return int(hash) & (len(x.slots) - 1)
}

func (x *index) after(i int) int {
	return (i + 1) & (len(x.slots) - 1)
}

func (x *index) get(key Key, hash uint32) *Lease {
	if x.n == 0 {
		return nil
	}
	for i := x.home(hash); ; i = x.after(i) {
		s := &x.slots[i]
		if s.l == nil || (s.hash == hash && s.l.key == key) {
			return s.l
		}
	}
}

// put adds l; its key must not be there.
func (x *index) put(l *Lease) {
	if 4*(x.n+1) > 3*len(x.slots) {
		x.resize(max(minSlots, 2*len(x.slots)))
	}
	x.n++
	x.place(slot{l, l.hash})
}

func (x *index) place(s slot) {
	i := x.home(s.hash)
	for x.slots[i].l != nil {
		i = x.after(i)
	}
	x.slots[i] = s
}

// remove takes l out, this very lease and not another of its key. False means that it was not there.
func (x *index) remove(l *Lease) bool {
	if x.n == 0 {
		return false
	}
	i := x.home(l.hash)
	for x.slots[i].l != l {
		if x.slots[i].l == nil {
			return false
		}
		i = x.after(i)
	}
	x.n--
	x.close(i)
	if len(x.slots) > 8*minSlots && x.n < len(x.slots)/8 {
		x.resize(len(x.slots) / 4)
	}
	return true
}

// close empties slot i and moves up what would not be found behind the hole.
func (x *index) close(i int) {
	for j := x.after(i); x.slots[j].l != nil; j = x.after(j) {
		// The distance from home to j, around the end; what is nearer than the hole may stay.
		if (j-x.home(x.slots[j].hash))&(len(x.slots)-1) >= (j-i)&(len(x.slots)-1) {
			x.slots[i] = x.slots[j]
			i = j
		}
	}
	x.slots[i] = slot{}
}

func (x *index) resize(size int) {
	old := x.slots
	x.slots = make([]slot, size)
	for _, s := range old {
		if s.l != nil {
			x.place(s)
		}
	}
}

// all calls f for each lease; f must not change the index.
func (x *index) all(f func(*Lease)) {
	for _, s := range x.slots {
		if s.l != nil {
			f(s.l)
		}
	}
}
