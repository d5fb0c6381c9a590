package fill

// deadlines is a heap of leases by the moment at which somebody has to look at them. A lease that was renewed keeps its place
// until that moment and is put back then: renewing costs no heap work. Not safe for concurrent use.
type deadlines struct {
	heap []deadline
}

// deadline is one entry. The moment stands beside the lease, so that sifting touches no lease but those that move.
type deadline struct {
	at int64
	l  *Lease
}

func (d *deadlines) first() (deadline, bool) {
	if len(d.heap) == 0 {
		return deadline{}, false
	}
	return d.heap[0], true
}

// set puts l at a moment, whether it is in the heap or not.
func (d *deadlines) set(l *Lease, at int64) {
	if l.place == 0 {
		d.heap = append(d.heap, deadline{at, l})
		l.place = int32(len(d.heap))
		d.up(len(d.heap) - 1)
		return
	}
	i := int(l.place) - 1
	d.heap[i].at = at
	d.down(d.up(i))
}

// remove takes l out if it is there.
func (d *deadlines) remove(l *Lease) {
	if l.place == 0 {
		return
	}
	i, last := int(l.place)-1, len(d.heap)-1
	l.place = 0
	moved := d.heap[last]
	d.heap[last] = deadline{}
	d.heap = d.heap[:last]
	if i < last {
		d.put(i, moved)
		d.down(d.up(i))
	}
	if cap(d.heap) > 1024 && len(d.heap) < cap(d.heap)/8 {
		d.heap = append(make([]deadline, 0, cap(d.heap)/4), d.heap...)
	}
}

func (d *deadlines) put(i int, e deadline) {
	d.heap[i] = e
	e.l.place = int32(i + 1)
}

// fanout is the number of children of a node: four keep the heap flat, and four entries are one cache line.
const fanout = 4

func (d *deadlines) up(i int) int {
	e := d.heap[i]
	for i > 0 {
		parent := (i - 1) / fanout
		if d.heap[parent].at <= e.at {
			break
		}
		d.put(i, d.heap[parent])
		i = parent
	}
	d.put(i, e)
	return i
}

func (d *deadlines) down(i int) {
	e := d.heap[i]
	for {
		child := d.least(i)
		if child < 0 || d.heap[child].at >= e.at {
			break
		}
		d.put(i, d.heap[child])
		i = child
	}
	d.put(i, e)
}

// least is the child of i that is due first, −1 if i has none.
func (d *deadlines) least(i int) int {
	best := -1
	for c := fanout*i + 1; c <= fanout*i+fanout && c < len(d.heap); c++ {
		if best < 0 || d.heap[c].at < d.heap[best].at {
			best = c
		}
	}
	return best
}
