package cache

import (
	"math"
	"strings"

	"github.com/swrproxy/swrproxy/policy"
)

// marks say where in a record's block of fields the hit path has something to do. They take 16 bytes in every record.
type marks struct {
	// kept has a bit for each of the first keptLines lines that a 304 has, too: RFC 9110 §15.4.5.
	kept uint32
	// own are where the fields that each answer computes belong, as in ownFields.
	own [len(ownFields)]uint16
	// etag and etagLen are where the value of the first Etag is; an empty one counts as none.
	etag, etagLen uint16
	flags         markFlags
}

// markFlags are what else is known of a block.
type markFlags uint8

const (
	// markUnusual: the marks do not describe the block: it is too long, or has lines that an answer computes.
	markUnusual markFlags = 1 << iota
	// markTyped: there is a Content-Type.
	markTyped
	// markManyLines: there are more lines than kept has bits.
	markManyLines
	// markMade: these are the record's marks, and not the zero value.
	markMade
)

// ownFields are those that an answer computes, in the order of their names.
var ownFields = [...]string{"Age", "Cache-Status", "Content-Length"}

const keptLines = 32

// Prepare makes the record fit for [Cache.Hit], which leaves others to the ordinary path. Stores call it in Put, before they publish the record.
// It does nothing the second time.
func (r *Record) Prepare() {
	if !r.marks.has(markMade) {
		r.marks = markBlock(r.Fields.block)
	}
}

// markBlock finds the marks of a block, whose lines are in the order of their names.
func markBlock(block string) (m marks) {
	m.flags = markMade
	if len(block) > math.MaxUint16 {
		m.flags |= markUnusual
		return m
	}
	next := 0 // of ownFields
	for at, line := 0, 0; at < len(block); line++ {
		name, size := nextLine(block[at:])
		for ; next < len(ownFields) && name > ownFields[next]; next++ {
			m.own[next] = uint16(at)
		}
		m.line(block, name, at, at+size, line)
		at += size
	}
	for ; next < len(ownFields); next++ {
		m.own[next] = uint16(len(block))
	}
	return m
}

// line takes the line of block from at to end into account.
func (m *marks) line(block, name string, at, end, number int) {
	switch name {
	case "Age", "Content-Length":
		m.flags |= markUnusual
	case "Content-Type":
		m.flags |= markTyped
	case "Etag":
		if m.etagLen == 0 {
			m.etag = uint16(at + len("Etag: "))
			m.etagLen = uint16(end-len("\r\n")) - m.etag
		}
	}
	switch {
	case number >= keptLines:
		m.flags |= markManyLines
	case policy.InNotModified(name, m.etagOf(block)): // Last-Modified, for which the Etag counts, comes behind it
		m.kept |= 1 << number
	}
}

func (m *marks) etagOf(block string) string { return block[m.etag : m.etag+m.etagLen] }

func (m *marks) has(f markFlags) bool { return m.flags&f != 0 }

// nextLine returns the name of the first line of a block and where the line ends.
func nextLine(block string) (name string, end int) {
	end = strings.IndexByte(block, '\n') + 1
	return block[:strings.IndexByte(block[:end], ':')], end
}
