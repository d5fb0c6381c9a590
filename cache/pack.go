package cache

import "unsafe"

// packedBody is the largest body that [Pack] copies, in bytes. A larger one is an allocation of its own, of which few fit a budget.
const packedBody = 8 << 10

// Pack copies records so that the collector has next to nothing to look for in them. Where all are [Record.Compact], the copies are one allocation
// that counts as free of pointers: structs, strings and small bodies side by side. The copies share no memory with the originals but bodies that are large or elsewhere. One
// copy in use keeps the memory of all. The originals may be read meanwhile.
func Pack(from []*Record) []Record {
	p := packing{compact: true}
	for _, r := range from {
		p.count(r)
		p.compact = p.compact && r.Compact()
	}
	to := p.grow(len(from))
	for i, r := range from {
		p.put(&to[i], r)
	}
	return to
}

// Compact tells whether everything in a record is small and in memory.
func (r *Record) Compact() bool { return r.Body.src == nil && len(r.Body.mem) <= packedBody }

// PackedSize is how many bytes Pack needs for r.
func (r *Record) PackedSize() int {
	var p packing
	p.count(r)
	return recordSize + p.words*wordSize + p.bytes
}

const (
	recordSize = int(unsafe.Sizeof(Record{}))
	wordSize   = int(unsafe.Sizeof(uintptr(0)))
)

// packing is what Pack has copied so far. Not safe for concurrent use.
//
// In compact memory there are pointers of which the collector does not know. That is sound because each of them leads into the same allocation: whoever has
// found one holds a pointer to that allocation, which keeps all of it, and the collector moves nothing.
type packing struct {
	compact bool
	words   int // that values with pointers need, beside the records
	bytes   int

	memory []uint64 // where words are left, if compact
	rest   []byte   // where bytes are left; what was put never moves
}

// count takes r into account for grow.
func (p *packing) count(r *Record) {
	p.bytes += len(r.Key) + len(r.Fields.block) + len(r.Trailer.block)
	if r.Primary != r.Key {
		p.bytes += len(r.Primary)
	}
	p.countList(r.Tags)
	if r.Partial != nil {
		countWords[Partial](p, 1)
	}
	if x := r.Index; x != nil {
		countWords[Index](p, 1)
		countWords[[]string](p, len(x.Specs))
		for _, spec := range x.Specs {
			p.countList(spec)
		}
		p.countList(x.Variants)
	}
	if len(r.Body.mem) <= packedBody {
		p.bytes += len(r.Body.mem)
	}
}

func (p *packing) countList(list []string) {
	countWords[string](p, len(list))
	for _, s := range list {
		p.bytes += len(s)
	}
}

// grow makes room for n records and all that was counted.
func (p *packing) grow(n int) []Record {
	if !p.compact {
		p.rest = make([]byte, p.bytes)
		return make([]Record, n)
	}
	words := p.words + n*recordSize/wordSize
	p.memory = make([]uint64, words+(p.bytes+wordSize-1)/wordSize)
	p.rest = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(p.memory[words:]))), p.bytes)
	return allot[Record](p, n)
}

func (p *packing) put(to, r *Record) {
	*to = *r
	to.Key = p.string(r.Key)
	to.Primary = to.Key
	if r.Primary != r.Key {
		to.Primary = p.string(r.Primary)
	}
	to.StoredAt, to.Life.BornAt = r.StoredAt.UTC(), r.Life.BornAt.UTC() // in which there is no pointer
	to.Fields.block, to.Trailer.block = p.string(r.Fields.block), p.string(r.Trailer.block)
	to.Tags = p.list(r.Tags)
	if r.Partial != nil {
		to.Partial = &allot[Partial](p, 1)[0]
		*to.Partial = *r.Partial
	}
	if r.Index != nil {
		to.Index = p.index(r.Index)
	}
	if n := len(r.Body.mem); n <= packedBody {
		to.Body.mem = add(p, r.Body.mem)
	}
}

func (p *packing) index(from *Index) *Index {
	x := &allot[Index](p, 1)[0]
	x.Specs = allot[[]string](p, len(from.Specs))
	for i, spec := range from.Specs {
		x.Specs[i] = p.list(spec)
	}
	x.Variants = p.list(from.Variants)
	return x
}

func (p *packing) list(from []string) []string {
	list := allot[string](p, len(from))
	for i, s := range from {
		list[i] = p.string(s)
	}
	return list
}

func (p *packing) string(s string) string { return view(add(p, s)) }

// add copies bytes that nobody modifies from then on. Of none there is no pointer, which the collector would follow.
func add[T string | []byte](p *packing, b T) []byte {
	if len(b) == 0 {
		return nil
	}
	n := copy(p.rest, b)
	added := p.rest[:n:n]
	p.rest = p.rest[n:]
	return added
}

// countWords takes n values into account for grow.
func countWords[T any](p *packing, n int) {
	var v T
	p.words += n * int(unsafe.Sizeof(v)) / wordSize
}

// allot makes n values that nobody appends to, nil for none. Their size is one of whole words.
func allot[T any](p *packing, n int) []T {
	switch {
	case n == 0:
		return nil
	case !p.compact:
		return make([]T, n)
	}
	var v T
	at := unsafe.Pointer(unsafe.SliceData(p.memory))
	p.memory = p.memory[n*int(unsafe.Sizeof(v))/wordSize:]
	return unsafe.Slice((*T)(at), n)
}
