package cache

import (
	"slices"
	"unsafe"
)

// packedBody is the largest body that [Pack] copies, in bytes. A larger one is an allocation of its own, of which few fit a budget.
const packedBody = 8 << 10

// Packed are records that are kept together. Immutable.
type Packed struct {
	base unsafe.Pointer // the first record
	at   []uint16       // where each record is, in words behind base
}

// Alone is a record kept by itself, without copying it.
func Alone(r *Record) Packed { return Packed{unsafe.Pointer(r), atBase[:]} }

var atBase [1]uint16

// Pack copies records so that the collector has next to nothing to look for in them, and the processor one place. Where all are [Record.Compact], the
// copies are one allocation that counts as free of pointers: each record, its strings and its body, and the next. The copies share no memory with the
// originals but bodies that are large or elsewhere. One copy in use keeps the memory of all. The originals may be read meanwhile.
// All but the last may take 256 KiB together.
func Pack(from []*Record) Packed {
	if !slices.ContainsFunc(from, func(r *Record) bool { return !r.Compact() }) {
		return packCompact(from)
	}
	bytes := 0
	for _, r := range from {
		bytes += roomFor(r).bytes
	}
	p := packing{bytes: make([]byte, bytes)} // what was put never moves
	to := make([]Record, len(from))
	at := make([]uint16, len(from))
	for i, r := range from {
		p.put(&to[i], r)
		at[i] = uint16(i * recordSize / wordSize)
	}
	return Packed{unsafe.Pointer(unsafe.SliceData(to)), at}
}

// packCompact makes memory with pointers of which the collector does not know. That is sound because each of them leads into the same allocation: whoever
// has found one holds a pointer to that allocation, which keeps all of it, and the collector moves nothing.
func packCompact(from []*Record) Packed {
	words := 0
	for _, r := range from {
		words += roomFor(r).total() / wordSize
	}
	memory := make([]uintptr, words)
	packed := Packed{unsafe.Pointer(unsafe.SliceData(memory)), make([]uint16, len(from))}
	for i, r := range from {
		packed.at[i] = uint16(words - len(memory))
		need := roomFor(r)
		p := packing{compact: true, words: memory}
		to := &allot[Record](&p, 1)[0]
		if need.bytes > 0 {
			p.bytes = unsafe.Slice((*byte)(unsafe.Pointer(&p.words[need.words])), need.bytes)
		}
		p.put(to, r)
		memory = memory[need.total()/wordSize:]
	}
	return packed
}

// Places are where the records are, as Record takes them. Not to be modified.
func (p Packed) Places() []uint16 { return p.at }

// Record is the one at a place, which must be one of Places.
func (p Packed) Record(at uint16) *Record {
	return (*Record)(unsafe.Add(p.base, int(at)*wordSize))
}

// Compact tells whether everything in a record is small and in memory.
func (r *Record) Compact() bool { return r.Body.src == nil && r.Body.size <= packedBody }

// PackedSize is how many bytes Pack needs for r.
func (r *Record) PackedSize() int { return roomFor(r).total() }

const (
	recordSize = int(unsafe.Sizeof(Record{}))
	wordSize   = int(unsafe.Sizeof(uintptr(0)))
)

// packedBytes are what Pack copies of the body.
func (r *Record) packedBytes() []byte {
	if !r.Compact() {
		return nil
	}
	b, _ := r.Body.Bytes()
	return b
}

// room is what the copy of a record needs beside the struct: words for values with pointers, and bytes.
type room struct{ words, bytes int }

func roomFor(r *Record) (need room) {
	need.bytes = len(r.Key) + len(r.Fields.block) + len(r.Trailer.block)
	if r.Primary != r.Key {
		need.bytes += len(r.Primary)
	}
	need.addList(r.Tags)
	if r.Partial != nil {
		need.words += wordsOf[Partial]()
	}
	if x := r.Index; x != nil {
		need.words += wordsOf[Index]() + len(x.Specs)*wordsOf[[]string]()
		for _, spec := range x.Specs {
			need.addList(spec)
		}
		need.addList(x.Variants)
	}
	need.bytes += len(r.packedBytes())
	return need
}

func (n *room) addList(list []string) {
	n.words += len(list) * wordsOf[string]()
	for _, s := range list {
		n.bytes += len(s)
	}
}

// total is in bytes, the struct included, up to where the next record may begin.
func (n room) total() int {
	return recordSize + n.words*wordSize + (n.bytes+wordSize-1)/wordSize*wordSize
}

// wordsOf is the size of a T, which is one of whole words.
func wordsOf[T any]() int {
	var v T
	return (int(unsafe.Sizeof(v)) + wordSize - 1) / wordSize
}

// packing is where the copies of records go. Not safe for concurrent use.
type packing struct {
	compact bool
	words   []uintptr // what is left for values with pointers, if compact
	bytes   []byte    // what is left for bytes
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
	if b := r.packedBytes(); b != nil {
		to.Body = MemoryBody(add(p, b))
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
	n := copy(p.bytes, b)
	added := p.bytes[:n:n]
	p.bytes = p.bytes[n:]
	return added
}

// allot makes n values that nobody appends to, nil for none.
func allot[T any](p *packing, n int) []T {
	switch {
	case n == 0:
		return nil
	case !p.compact:
		return make([]T, n)
	}
	at := unsafe.Pointer(unsafe.SliceData(p.words))
	p.words = p.words[n*wordsOf[T]():]
	return unsafe.Slice((*T)(at), n)
}
