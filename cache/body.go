package cache

import (
	"bytes"
	"io"
	"unsafe"
)

// Body is the content of a stored response: bytes in memory, or something that a store can open.
// It is shared by all readers and never copied for one. The zero value is an empty body.
// Immutable after it was made.
type Body struct {
	mem  *byte // the first of size; not with a source
	src  BodySource
	size int64
}

// BodySource opens a body that does not live in memory. Each call returns a reader of its own,
// positioned at the start; an *os.File lets the server use sendfile. An error means that the body
// is gone or damaged: the record is then dropped and the read counts as a miss.
type BodySource interface {
	Open() (io.ReadSeekCloser, error)
}

// MemoryBody makes a body of b, which nobody may modify from now on.
func MemoryBody(b []byte) Body { return Body{mem: unsafe.SliceData(b), size: int64(len(b))} }

// SourceBody makes a body of size bytes that src opens.
func SourceBody(src BodySource, size int64) Body { return Body{src: src, size: size} }

// Size is the body's length in bytes.
func (b Body) Size() int64 { return b.size }

// Bytes returns the body if it lives in memory. The caller must not modify it.
func (b Body) Bytes() (p []byte, ok bool) {
	if b.src != nil {
		return nil, false
	}
	return unsafe.Slice(b.mem, b.size), true
}

// Source returns what opens the body, nil if it lives in memory.
func (b Body) Source() BodySource { return b.src }

// Open returns a reader of the whole body; the caller closes it.
func (b Body) Open() (io.ReadSeekCloser, error) {
	if b.src != nil {
		return b.src.Open()
	}
	return memoryReader{bytes.NewReader(unsafe.Slice(b.mem, b.size))}, nil
}

type memoryReader struct{ *bytes.Reader }

func (memoryReader) Close() error { return nil }
