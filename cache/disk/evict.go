package disk

import (
	"cmp"
	"slices"
	"time"

	"go.etcd.io/bbolt"
)

const (
	// evictWindow is among how many of the records unused for longest the largest is chosen.
	evictWindow = 16
	// secondChances is how many recently read records one transaction lets off.
	secondChances = 1024
)

// candidate is a record that may have to go.
type candidate struct {
	order        *bbolt.Bucket
	at           location
	hash, token  uint64
	body         ref
	inDB, inFile int64 // bytes that its removal would free
}

// evict removes records of the given orders until enough says so, or about most of them. It tells whether any went.
func (t *txn) evict(tc *touched, most int, orders []*bbolt.Bucket, enough func() bool) (any bool, err error) {
	for n := 0; n < most && !enough(); {
		list, err := t.candidates(tc, orders)
		if err != nil || len(list) == 0 {
			return any, err
		}
		slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(b.inDB+b.inFile, a.inDB+a.inFile) })
		for _, c := range list {
			if enough() {
				break
			}
			if err := t.evictOne(c); err != nil {
				return any, err
			}
			any = true
			n++
		}
	}
	return any, nil
}

// candidates lists the records unused for longest. Those read lately move to the end of their order instead.
func (t *txn) candidates(tc *touched, orders []*bbolt.Bucket) (list []candidate, err error) {
	for _, order := range orders {
		found, again := t.oldest(order, tc)
		list = append(list, found...)
		for _, c := range again {
			if err := t.toEnd(c); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(list, func(a, b candidate) int { return cmp.Compare(a.at.place(), b.at.place()) })
	return list[:min(len(list), evictWindow)], nil
}

// oldest lists the first of an order, and those before them that were read lately.
func (t *txn) oldest(order *bbolt.Bucket, tc *touched) (list, again []candidate) {
	cur := order.Cursor()
	for k, v := cur.First(); k != nil && len(list) < evictWindow; k, v = cur.Next() {
		c := t.newCandidate(order, be64(k), v)
		if len(again) < secondChances && tc.take(c.hash) {
			again = append(again, c)
		} else {
			list = append(list, c)
		}
	}
	return list, again
}

// newCandidate reads what eviction needs to know from a value.
func (t *txn) newCandidate(order *bbolt.Bucket, place uint64, v []byte) candidate {
	c := candidate{order: order, at: locationOf(place, bodyNone), inDB: int64(len(v))}
	if order == t.order[1] {
		c.at = locationOf(place, bodyFile)
	}
	if len(v) >= offVersion {
		c.hash = be64(v[offHash:])
	}
	if h, err := decodeHeader(v); err == nil {
		c.token, c.body = h.token, h.body
	}
	switch c.body.kind {
	case bodyInline:
		c.inDB += c.body.size
	case bodyFile:
		c.inFile = blocks(c.body.size)
	}
	return c
}

// toEnd gives a record the latest place.
func (t *txn) toEnd(c candidate) error {
	if t.locate(c.hash) != c.at {
		return t.clear(c)
	}
	v := t.keep(get64(c.order, c.at.place()))
	if err := delete64(c.order, c.at.place()); err != nil {
		return err
	}
	t.st.place++
	t.setLocation(c.hash, c.at.moved(t.st.place))
	return put64(c.order, t.st.place, v)
}

func (t *txn) evictOne(c candidate) error {
	if t.locate(c.hash) != c.at {
		return t.clear(c)
	}
	t.evicted = append(t.evicted, victim{c.hash, c.token, isExpired(get64(c.order, c.at.place()))})
	t.freedDB += c.inDB
	t.freedFiles += c.inFile
	return t.remove(c.hash, 0)
}

// clear removes a value that damage to the index left behind, and its body unless that is in use.
func (t *txn) clear(c candidate) error {
	v := t.value(t.locate(c.hash))
	now, err := decodeHeader(v)
	if err != nil || now.body.id != c.body.id {
		if err := t.removeBody(c.hash, c.body); err != nil {
			return err
		}
	}
	t.unlist(c.hash, get64(c.order, c.at.place()))
	t.list(c.hash, t.termsAt(v)) // those that the record has that is in use
	return delete64(c.order, c.at.place())
}

// isExpired tells whether the record could not have answered without its origin any more.
func isExpired(v []byte) bool {
	r, _, err := decodeValue(v)
	if err != nil || r.Index != nil {
		return false
	}
	l := &r.Life
	return time.Now().After(l.BornAt.Add(l.FreshFor + max(l.StaleFor, l.ErrorFor)))
}
