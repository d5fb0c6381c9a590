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
	place, hash  uint64
	inDB, inFile int64
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
		found, again := oldest(order, tc)
		list = append(list, found...)
		for _, c := range again {
			if err := t.toEnd(c); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(list, func(a, b candidate) int { return cmp.Compare(a.place, b.place) })
	return list[:min(len(list), evictWindow)], nil
}

// oldest lists the first of an order, and those before them that were read lately.
func oldest(order *bbolt.Bucket, tc *touched) (list, again []candidate) {
	cur := order.Cursor()
	for k, v := cur.First(); k != nil && len(list) < evictWindow; k, v = cur.Next() {
		c := candidate{order: order, place: be64(k)}
		if len(v) == orderSize {
			c.hash, c.inDB, c.inFile = be64(v), int64(be64(v[8:])), int64(be64(v[16:]))
		}
		if len(again) < secondChances && tc.take(c.hash) {
			again = append(again, c)
		} else {
			list = append(list, c)
		}
	}
	return list, again
}

// toEnd gives a record the latest place.
func (t *txn) toEnd(c candidate) error {
	if err := c.order.Delete(key64(c.place)); err != nil {
		return err
	}
	v := append([]byte(nil), t.records.Get(key64(c.hash))...)
	if h, err := decodeHeader(v); err != nil || h.place != c.place {
		return nil // the place was left behind
	}
	t.st.place++
	copy(v, key64(t.st.place))
	if err := t.records.Put(key64(c.hash), v); err != nil {
		return err
	}
	return c.order.Put(key64(t.st.place), orderEntry(c.hash, c.inDB, c.inFile))
}

func (t *txn) evictOne(c candidate) error {
	v := t.records.Get(key64(c.hash))
	head, err := decodeHeader(v)
	if err != nil || head.place != c.place {
		return c.order.Delete(key64(c.place)) // left behind
	}
	t.evicted = append(t.evicted, victim{c.hash, head.token, isExpired(v)})
	t.freedDB += c.inDB
	t.freedFiles += c.inFile
	return t.remove(c.hash, 0)
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
