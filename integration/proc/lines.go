package proc

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
)

// ErrEnded is returned by Next when the output ended before another line came.
var ErrEnded = errors.New("proc: output ended")

// maxLine is how much of one line of output is kept, in bytes.
const maxLine = 1 << 20

// Lines is one output of a child, kept whole, readable while it grows. Safe for concurrent use.
type Lines struct {
	mu sync.Mutex // guards following
	// lines are all lines so far; grown is closed and replaced when that changes.
	lines []string
	ended bool
	grown chan struct{}
}

// follow reads r to its end on a goroutine of its own and returns what closes then.
func (l *Lines) follow(r io.Reader) <-chan struct{} {
	l.grown = make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for br := bufio.NewReader(r); ; {
			line, err := readLine(br)
			if err != nil {
				break // the child's end, whatever the pipe calls it
			}
			l.add(line)
		}
		l.end()
	}()
	return done
}

// readLine reads one line without its end. Of a line that is too long it returns the beginning and drops the rest, so that what follows is
// read all the same. The last line needs no end.
func readLine(br *bufio.Reader) (string, error) {
	var line []byte
	for {
		part, more, err := br.ReadLine()
		line = append(line, part[:min(len(part), maxLine-len(line))]...)
		if err != nil && len(line) == 0 {
			return "", err
		}
		if err != nil || !more {
			return string(line), nil // an error comes again
		}
	}
}

func (l *Lines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	close(l.grown)
	l.grown = make(chan struct{})
}

func (l *Lines) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	close(l.grown)
	l.grown = make(chan struct{})
}

// Next returns line number n, counted from 0, and the number to ask for next; it waits for the line until ctx ends.
func (l *Lines) Next(ctx context.Context, n int) (string, int, error) {
	for {
		l.mu.Lock()
		lines, ended, grown := l.lines, l.ended, l.grown
		l.mu.Unlock()
		switch {
		case n < len(lines):
			return lines[n], n + 1, nil
		case ended:
			return "", n, ErrEnded
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return "", n, context.Cause(ctx)
		}
	}
}

// All returns the lines so far.
func (l *Lines) All() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines[:len(l.lines):len(l.lines)]
}

// String returns the lines so far as one text.
func (l *Lines) String() string { return strings.Join(l.All(), "\n") }
