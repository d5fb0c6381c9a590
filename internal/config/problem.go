package config

import (
	"fmt"
	"strings"
)

// Problem is one mistake, or one warning, with its place.
type Problem struct {
	// File is the file's name, or the flag for a problem of the command line.
	File string
	// Line and Column begin at 1 and count characters; 0 when the problem has no place in a file.
	Line, Column int
	// Path is the key, such as rules[0].ttl.
	Path string
	// What is wrong, and how to Mend it.
	What, Mend string
	// Excerpt is the line in the file, or what of a very long one is around Column; "" if there is none or it holds a secret.
	Excerpt string

	mark int // the column within Excerpt
}

// String returns the place, what is wrong, the line with a mark under the column, and what would be right.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	b.WriteString(": ")
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.What)
	if p.Excerpt != "" {
		prefix := fmt.Sprintf("%5d | ", p.Line)
		fmt.Fprintf(&b, "\n%s%s\n%s^", prefix, p.Excerpt, strings.Repeat(" ", len(prefix)-2)+"| "+indent(p.Excerpt, p.mark))
	}
	if p.Mend != "" {
		b.WriteString("\n      → " + p.Mend)
	}
	return b.String()
}

// indent is as wide as the first column−1 characters of line, tabs kept.
func indent(line string, column int) string {
	var b strings.Builder
	for i, r := range []rune(line) {
		switch {
		case i >= column-1:
			return b.String()
		case r == '\t':
			b.WriteRune(r)
		default:
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// maxExcerpt is how many characters of a line are shown, and beforeMark how many of them in front of the mark.
const (
	maxExcerpt = 160
	beforeMark = 60
)

// excerpt cuts a long line to what is around column, and returns where the column went.
func excerpt(line string, column int) (text string, mark int) {
	r := []rune(line)
	if len(r) <= maxExcerpt {
		return line, column
	}
	from := min(max(column-1-beforeMark, 0), len(r)-maxExcerpt)
	text, mark = string(r[from:from+maxExcerpt]), column-from
	if from > 0 {
		text, mark = "…"+text, mark+1
	}
	if from+maxExcerpt < len(r) {
		text += "…"
	}
	return text, mark
}

// Error is the mistakes that one run found, in the order of the file.
type Error struct {
	Problems []Problem
	// More is how many further ones there were.
	More int
}

// maxProblems is how many mistakes are told at once; a file with more has one mistake in many places.
const maxProblems = 40

// Error returns all problems, one below the other.
func (e *Error) Error() string {
	texts := make([]string, 0, len(e.Problems)+1)
	for _, p := range e.Problems {
		texts = append(texts, p.String())
	}
	if e.More > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", e.More))
	}
	return strings.Join(texts, "\n")
}
