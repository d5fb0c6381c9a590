package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
	"unsafe"

	"github.com/cespare/xxhash/v2"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/policy"
)

// errDamaged is returned for bytes on disk that are not what was written.
var errDamaged = errors.New("disk: damaged")

// valueVersion is the version of the encoding of one record.
const valueVersion = 2

// bodyKind says where a record's body is. Values are part of the format.
type bodyKind uint8

const (
	bodyNone   bodyKind = iota // no bytes
	bodyInline                 // in the database
	bodyFile                   // a file of its own
)

// ref says where a body is and how to tell that it is whole.
type ref struct {
	kind bodyKind
	id   uint64
	size int64
	sum  uint64 // xxHash64 of the content
}

// header is the part of a value at fixed places, which eviction reads without decoding the rest.
type header struct {
	hash  uint64 // of the key
	token uint64
	body  ref
}

// Offsets in a value, see docs/disk-format.md.
const (
	offCheck   = 0
	offHash    = 8
	offVersion = 16
	offKind    = 17
	offToken   = 18
	offBodyID  = 26
	offSize    = 34
	offSum     = 42
	offPayload = 50
)

// Bits of the payload's first byte.
const (
	hasPrimary = 1 << iota // Primary differs from Key
	hasTrailer
	hasPartial
	hasIndex
)

// appendValue appends the value of r, whose key has the hash h and whose body is at b, to dst.
func appendValue(dst []byte, r *cache.Record, b ref, h uint64) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, offPayload)...)
	head := dst[start:]
	binary.BigEndian.PutUint64(head[offHash:], h)
	head[offVersion], head[offKind] = valueVersion, byte(b.kind)
	binary.BigEndian.PutUint64(head[offToken:], r.Token)
	binary.BigEndian.PutUint64(head[offBodyID:], b.id)
	binary.BigEndian.PutUint64(head[offSize:], uint64(b.size))
	binary.BigEndian.PutUint64(head[offSum:], b.sum)
	dst = appendPayload(dst, r)
	binary.BigEndian.PutUint64(dst[start+offCheck:], xxhash.Sum64(dst[start+offHash:]))
	return dst
}

func appendPayload(dst []byte, r *cache.Record) []byte {
	dst = append(dst, payloadBits(r))
	dst = appendString(dst, r.Key)
	if r.Primary != r.Key {
		dst = appendString(dst, r.Primary)
	}
	dst = appendTime(dst, r.StoredAt)
	dst = binary.AppendUvarint(dst, uint64(r.Status))
	dst = appendLife(dst, r.Life)
	dst = appendString(dst, r.Fields.Block())
	if t := r.Trailer.Block(); t != "" {
		dst = appendString(dst, t)
	}
	dst = appendStrings(dst, r.Tags)
	if r.Partial != nil {
		dst = binary.AppendVarint(dst, r.Partial.Start)
		dst = binary.AppendVarint(dst, r.Partial.Size)
	}
	if r.Index != nil {
		dst = appendIndex(dst, r.Index)
	}
	return dst
}

func payloadBits(r *cache.Record) (bits byte) {
	if r.Primary != r.Key {
		bits |= hasPrimary
	}
	if r.Trailer.Block() != "" {
		bits |= hasTrailer
	}
	if r.Partial != nil {
		bits |= hasPartial
	}
	if r.Index != nil {
		bits |= hasIndex
	}
	return bits
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendStrings(dst []byte, list []string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, s := range list {
		dst = appendString(dst, s)
	}
	return dst
}

func appendTime(dst []byte, t time.Time) []byte {
	return binary.AppendUvarint(binary.AppendVarint(dst, t.Unix()), uint64(t.Nanosecond()))
}

func appendLife(dst []byte, l policy.Life) []byte {
	dst = appendTime(dst, l.BornAt)
	for _, span := range []time.Duration{l.FreshFor, l.StaleFor, l.ErrorFor} {
		dst = binary.AppendVarint(dst, int64(span))
	}
	return binary.AppendUvarint(dst, uint64(l.Flags))
}

func appendIndex(dst []byte, x *cache.Index) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(x.Specs)))
	for _, spec := range x.Specs {
		dst = appendStrings(dst, spec)
	}
	return appendStrings(dst, x.Variants)
}

// decodeHeader reads the part at fixed places without checking the sum.
func decodeHeader(v []byte) (header, error) {
	if len(v) < offPayload+1 || v[offVersion] != valueVersion {
		return header{}, fmt.Errorf("%w: value of %d bytes", errDamaged, len(v))
	}
	h := header{
		hash:  binary.BigEndian.Uint64(v[offHash:]),
		token: binary.BigEndian.Uint64(v[offToken:]),
		body: ref{
			kind: bodyKind(v[offKind]),
			id:   binary.BigEndian.Uint64(v[offBodyID:]),
			size: int64(binary.BigEndian.Uint64(v[offSize:])),
			sum:  binary.BigEndian.Uint64(v[offSum:]),
		},
	}
	if h.body.kind > bodyFile || h.body.size < 0 {
		return header{}, fmt.Errorf("%w: body kind %d of %d bytes", errDamaged, h.body.kind, h.body.size)
	}
	return h, nil
}

// decodeValue checks v and decodes it into a record without its body. Nothing in the record points into v.
func decodeValue(v []byte) (*cache.Record, header, error) {
	h, err := checkValue(v)
	if err != nil {
		return nil, h, err
	}
	// One copy serves all strings: a record's parts live and die together.
	d := decoder{rest: string(v[offPayload:])}
	r := d.record()
	r.Token = h.token
	if d.bad || d.rest != "" {
		return nil, h, fmt.Errorf("%w: payload", errDamaged)
	}
	return r, h, nil
}

// decodeNames checks v and decodes what the record's terms are made of into r, which points into v: it is for within the transaction.
func decodeNames(r *cache.Record, v []byte) (header, error) {
	h, err := checkValue(v)
	if err != nil {
		return h, err
	}
	d := decoder{rest: unsafe.String(&v[offPayload], len(v)-offPayload)}
	if d.names(r); d.bad {
		return h, fmt.Errorf("%w: payload", errDamaged)
	}
	return h, nil
}

// checkValue reads the part at fixed places and checks the sum of all.
func checkValue(v []byte) (header, error) {
	h, err := decodeHeader(v)
	if err == nil && xxhash.Sum64(v[offHash:]) != binary.BigEndian.Uint64(v[offCheck:]) {
		err = fmt.Errorf("%w: checksum of value", errDamaged)
	}
	return h, err
}

// decoder reads a payload. After the first malformed item all that follow are zero and bad is set. Not safe for concurrent use.
type decoder struct {
	rest string
	bad  bool
}

func (d *decoder) record() *cache.Record {
	bits := d.byte()
	r := &cache.Record{Key: d.string()}
	r.Primary = r.Key
	if bits&hasPrimary != 0 {
		r.Primary = d.string()
	}
	r.StoredAt = d.time()
	r.Status = d.int(math.MaxInt32)
	r.Life = d.life()
	r.Fields = cache.FieldsOf(d.string())
	if bits&hasTrailer != 0 {
		r.Trailer = cache.LinesOf(d.string())
	}
	r.Tags = d.strings()
	if bits&hasPartial != 0 {
		r.Partial = &cache.Partial{Start: d.varint(), Size: d.varint()}
	}
	if bits&hasIndex != 0 {
		r.Index = d.index()
	}
	return r
}

// names is record as far as keys and tags go.
func (d *decoder) names(r *cache.Record) {
	bits := d.byte()
	r.Key = d.string()
	if r.Primary = r.Key; bits&hasPrimary != 0 {
		r.Primary = d.string()
	}
	d.time()
	d.int(math.MaxInt32)
	d.life()
	d.string() // fields
	if bits&hasTrailer != 0 {
		d.string()
	}
	r.Tags = d.strings()
}

func (d *decoder) life() policy.Life {
	return policy.Life{
		BornAt:   d.time(),
		FreshFor: time.Duration(d.varint()),
		StaleFor: time.Duration(d.varint()),
		ErrorFor: time.Duration(d.varint()),
		Flags:    policy.LifeFlags(d.int(math.MaxUint8)),
	}
}

func (d *decoder) index() *cache.Index {
	x := new(cache.Index)
	for n := d.count(); n > 0 && !d.bad; n-- {
		x.Specs = append(x.Specs, append([]string{}, d.strings()...)) // never nil: an empty list stands for no Vary
	}
	x.Variants = d.strings()
	return x
}

func (d *decoder) byte() byte {
	if d.rest == "" {
		d.bad = true
		return 0
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return b
}

// uvarint is binary.Uvarint on a string; like it, it accepts encodings that are longer than need be.
func (d *decoder) uvarint() (n uint64) {
	for shift := 0; shift < 70; shift += 7 {
		b := d.byte()
		if shift == 63 && b > 1 {
			break
		}
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return n
		}
	}
	d.bad = true
	return 0
}

func (d *decoder) varint() int64 {
	u := d.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

// int returns a number of at most limit.
func (d *decoder) int(limit uint64) int {
	n := d.uvarint()
	if n > limit {
		d.bad = true
		return 0
	}
	return int(n)
}

// count returns a number of items that follow, each of at least one byte.
func (d *decoder) count() int { return d.int(uint64(len(d.rest))) }

func (d *decoder) string() string {
	n := d.count()
	if n > len(d.rest) {
		d.bad = true
		return ""
	}
	s := d.rest[:n]
	d.rest = d.rest[n:]
	return s
}

func (d *decoder) strings() []string {
	n := d.count()
	if n == 0 || d.bad {
		return nil
	}
	list := make([]string, 0, min(n, 64))
	for range n {
		list = append(list, d.string())
	}
	return list
}

func (d *decoder) time() time.Time {
	sec := d.varint()
	return time.Unix(sec, int64(d.int(999_999_999))).UTC()
}
