package cache

import (
	"math"
	"strings"

	"github.com/swrproxy/swrproxy/policy"
)

// marks say where in a record's block of fields the hit path has something to do. They take 24 bytes in every record.
type marks struct {
	// left is where the runs of lines begin that a 304 leaves out (RFC 9110 §15.4.5), leftSize how long they are; an empty one ends them.
	left     [leftRuns]uint16
	leftSize [leftRuns]uint8
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
	// markManyRuns: a 304 leaves out more than the runs can say.
	markManyRuns
	// markTag: etag is an entity tag without anything odd in it.
	markTag
	// markMade: these are the marks of a block, and not the zero value.
	markMade
)

// ownFields are those that an answer computes, in the order of their names.
var ownFields = [...]string{"Age", "Cache-Status", "Content-Length"}

// leftRuns are enough for Accept-Ranges, two stretches of content's own fields, as around a Content-Security-Policy, and Last-Modified.
const leftRuns = 4

// markBlock finds the marks of a block, whose lines are in the order of their names.
func markBlock(block string) (m marks) {
	m.flags = markMade
	if len(block) > math.MaxUint16 {
		m.flags |= markUnusual
		return m
	}
	next := 0 // of ownFields
	for at := 0; at < len(block); {
		name, size := nextLine(block[at:])
		for ; next < len(ownFields) && name > ownFields[next]; next++ {
			m.own[next] = uint16(at)
		}
		m.line(block, name, at, at+size)
		at += size
	}
	for ; next < len(ownFields); next++ {
		m.own[next] = uint16(len(block))
	}
	if isEntityTag(m.etagOf(block)) {
		m.flags |= markTag
	}
	return m
}

// line takes the line of block from at to end into account.
func (m *marks) line(block, name string, at, end int) {
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
	if !policy.InNotModified(name, m.etagOf(block)) { // Last-Modified, for which the Etag counts, comes behind it
		m.leaveOut(at, end-at)
	}
}

// leaveOut adds a line to the last run if it follows on it, else to a new one.
func (m *marks) leaveOut(at, size int) {
	n := 0
	for n < leftRuns && m.leftSize[n] > 0 {
		n++
	}
	if last := n - 1; n > 0 && m.leftEnd(last) == at && int(m.leftSize[last])+size <= math.MaxUint8 {
		m.leftSize[last] += uint8(size)
		return
	}
	if n == leftRuns || size > math.MaxUint8 {
		m.flags |= markManyRuns
		return
	}
	m.left[n], m.leftSize[n] = uint16(at), uint8(size)
}

// leftEnd is the end of a run.
func (m *marks) leftEnd(run int) int { return int(m.left[run]) + int(m.leftSize[run]) }

func (m *marks) etagOf(block string) string { return block[m.etag : m.etag+m.etagLen] }

func (m *marks) has(f markFlags) bool { return m.flags&f != 0 }

// isEntityTag accepts one entity tag without anything odd in it: RFC 9110 §8.8.3.
func isEntityTag(s string) bool {
	s = strings.TrimPrefix(s, "W/")
	if len(s) < 2 || s[0] != '"' || strings.IndexByte(s[1:], '"') != len(s)-2 {
		return false
	}
	return strings.IndexByte(s, ' ') < 0 && strings.IndexByte(s, '\t') < 0
}

// nextLine returns the name of the first line of a block and where the line ends.
func nextLine(block string) (name string, end int) {
	end = strings.IndexByte(block, '\n') + 1
	return block[:strings.IndexByte(block[:end], ':')], end
}
