package telemetry

import (
	"io"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

const (
	// lineBufferSize is how many bytes of lines are held: some hundred requests.
	lineBufferSize = 32 << 10
	// lineBufferDelay is how long a line waits at most: short for people, long for a busy server.
	lineBufferDelay = 50 * time.Millisecond
)

// LineBuffer gathers log lines and writes many at once: at thousands of requests a second a system call for each line costs
// more than the answer. Lines of level warn and above, and all that waits, are written at once; others wait for at most 50 ms. A line is never
// split between two writes. Close writes what waits. Safe for concurrent use.
type LineBuffer struct {
	mu     sync.Mutex // guards following
	w      io.Writer
	buf    []byte
	timer  *time.Timer
	closed bool
}

var _ zerolog.LevelWriter = (*LineBuffer)(nil)

// NewLineBuffer makes a buffer in front of w.
func NewLineBuffer(w io.Writer) *LineBuffer {
	b := &LineBuffer{w: w, buf: make([]byte, 0, lineBufferSize)}
	b.timer = time.AfterFunc(time.Hour, b.flush)
	b.timer.Stop()
	return b
}

// Write takes a line of unknown level.
func (b *LineBuffer) Write(line []byte) (int, error) {
	return b.WriteLevel(zerolog.NoLevel, line)
}

// WriteLevel takes a line. The error is that of an earlier write if this one did none.
func (b *LineBuffer) WriteLevel(level zerolog.Level, line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var err error
	if len(b.buf)+len(line) > cap(b.buf) {
		err = b.flushLocked()
	}
	if len(b.buf) == 0 && !b.closed {
		b.timer.Reset(lineBufferDelay)
	}
	b.buf = append(b.buf, line...)
	if b.closed || len(line) > lineBufferSize || level >= zerolog.WarnLevel && level != zerolog.NoLevel {
		err = b.flushLocked()
	}
	return len(line), err
}

func (b *LineBuffer) flush() {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.flushLocked() // there is nobody to tell that the log can not be written
}

func (b *LineBuffer) flushLocked() error {
	if len(b.buf) == 0 {
		return nil
	}
	_, err := b.w.Write(b.buf)
	b.buf = b.buf[:0]
	return err
}

// Close writes what waits; lines that come later are written at once. It does not close the writer behind.
func (b *LineBuffer) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.timer.Stop()
	return b.flushLocked()
}
