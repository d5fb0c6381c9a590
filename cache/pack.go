package cache

// packedBody is the largest body that [Pack] copies, in bytes. A larger one is an allocation of its own, of which few fit a budget.
const packedBody = 8 << 10

// Pack copies records, with their strings and small bodies side by side in two allocations, so that the collector has next to nothing to look
// for in each. to returns where the copy of the i-th belongs. The copies share no memory with the originals but larger bodies, the
// specifications of indexes and parts. One copy in use keeps the bytes of all. The records may be read meanwhile.
func Pack(from []*Record, to func(i int) *Record) {
	var p packing
	for _, r := range from {
		p.count(r)
	}
	p.grow()
	for i, r := range from {
		p.put(to(i), r)
	}
}

// PackedSize is how many bytes Pack would copy for r, beside the struct.
func (r *Record) PackedSize() int {
	var p packing
	p.count(r)
	return p.size
}

// packing is what Pack has copied so far. Not safe for concurrent use.
type packing struct {
	size, numTags int

	bytes []byte
	tags  []string
}

// count takes r into account for grow.
func (p *packing) count(r *Record) {
	p.size += len(r.Key) + len(r.Fields.block) + len(r.Trailer.block)
	if r.Primary != r.Key {
		p.size += len(r.Primary)
	}
	for _, t := range r.Tags {
		p.size += len(t)
	}
	p.numTags += len(r.Tags)
	if len(r.Body.mem) <= packedBody {
		p.size += len(r.Body.mem)
	}
}

// grow makes room for all that was counted: what was put never moves.
func (p *packing) grow() {
	p.bytes = make([]byte, 0, p.size)
	p.tags = make([]string, 0, p.numTags)
}

func (p *packing) put(to, r *Record) {
	*to = *r
	to.Key = p.string(r.Key)
	to.Primary = to.Key
	if r.Primary != r.Key {
		to.Primary = p.string(r.Primary)
	}
	to.Fields.block, to.Trailer.block = p.string(r.Fields.block), p.string(r.Trailer.block)
	to.Tags = p.strings(r.Tags)
	if n := len(r.Body.mem); n <= packedBody {
		to.Body.mem = add(p, r.Body.mem)
	}
}

func (p *packing) string(s string) string { return view(add(p, s)) }

func (p *packing) strings(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	at := len(p.tags)
	for _, s := range list {
		p.tags = append(p.tags, p.string(s))
	}
	return p.tags[at:len(p.tags):len(p.tags)]
}

// add copies bytes that nobody modifies from then on. Of none there is no pointer, which the collector would follow.
func add[T string | []byte](p *packing, b T) []byte {
	if len(b) == 0 {
		return nil
	}
	at := len(p.bytes)
	p.bytes = append(p.bytes, b...)
	return p.bytes[at:len(p.bytes):len(p.bytes)]
}
