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

// maxLine bounds one line of output, in bytes.
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
		s := bufio.NewScanner(r)
		s.Buffer(make([]byte, 0, 64<<10), maxLine)
		for s.Scan() {
			l.add(s.Text())
		}
		// A line that is too long ends the scan; the child must not block on a full pipe for it.
		_, _ = io.Copy(io.Discard, r)
		l.end()
	}()
	return done
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
