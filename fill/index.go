package fill

// index finds leases by key: a hash table chained through the leases themselves, so that an entry costs two words and
// no allocation. Not safe for concurrent use.
type index struct {
	buckets []*Lease // length is 0 or a power of two
	n       int
}

// minBuckets is where an index starts and how small it shrinks.
const minBuckets = 8

func (x *index) get(key Key, hash uint32) *Lease {
	if x.n == 0 {
		return nil
	}
	l := x.buckets[hash&uint32(len(x.buckets)-1)]
	for l != nil && (l.hash != hash || l.key != key) {
		l = l.next
	}
	return l
}

// put adds l; its key must not be there.
func (x *index) put(l *Lease) {
	if x.n >= len(x.buckets) {
		x.resize(max(minBuckets, 2*len(x.buckets)))
	}
	x.n++
	x.link(l)
}

func (x *index) link(l *Lease) {
	b := &x.buckets[l.hash&uint32(len(x.buckets)-1)]
	l.next, *b = *b, l
}

// remove takes l out, this very lease and not another of its key. False means that it was not there.
func (x *index) remove(l *Lease) bool {
	if x.n == 0 {
		return false
	}
	at := &x.buckets[l.hash&uint32(len(x.buckets)-1)]
	for *at != nil && *at != l {
		at = &(*at).next
	}
	if *at == nil {
		return false
	}
	*at, l.next = l.next, nil
	x.n--
	if len(x.buckets) > 8*minBuckets && x.n < len(x.buckets)/8 {
		x.resize(len(x.buckets) / 4)
	}
	return true
}

func (x *index) resize(size int) {
	old := x.buckets
	x.buckets = make([]*Lease, size)
	for _, l := range old {
		for l != nil {
			next := l.next
			x.link(l)
			l = next
		}
	}
}

// all calls f for each lease; f must not change the index.
func (x *index) all(f func(*Lease)) {
	for _, l := range x.buckets {
		for ; l != nil; l = l.next {
			f(l)
		}
	}
}
