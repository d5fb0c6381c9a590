package cache

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/swrproxy/swrproxy/fill"
)

// arrived is a flight whose body came, and was committed, before anybody attached to it.
func arrived(t *testing.T, fl *flight) {
	t.Helper()
	data := bytes.Repeat([]byte("x"), 2*spoolMemory)
	s := newSpool(int64(len(data)), int64(len(data)), &tempFiles{t: t})
	fl.head.spool = s
	fl.readers = 1
	fl.reserve(s)
	for len(data) > 0 {
		n := copy(s.room(), data)
		s.advance(n)
		data = data[n:]
	}
	s.finish(nil)
}

// TestFirstReaderComesLate: the fill may be over before the reader who started it runs again; the body is still there for it, in a file too.
func TestFirstReaderComesLate(t *testing.T) {
	fl := &flight{}
	arrived(t, fl)
	rd := &read{own: fl}
	place := rd.placeIn(fl)
	if place == nil {
		t.Fatal("the first reader has no place")
	}
	n := 0
	for {
		b, err := place.next()
		n += len(b)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if n != 2*spoolMemory {
		t.Errorf("%d bytes, want %d", n, 2*spoolMemory)
	}
	place.close()
	fl.leaveFirst()
	if fl.head.spool.file != nil {
		t.Error("the file is open without a reader")
	}
}

// TestFirstReaderIsGone: nothing is kept for a reader that left, before the head came or after it.
func TestFirstReaderIsGone(t *testing.T) {
	after := &flight{headReady: make(chan struct{})}
	arrived(t, after)
	after.leaveFirst()
	before := &flight{headReady: make(chan struct{})}
	before.leaveFirst()
	arrived(t, before)
	for name, fl := range map[string]*flight{"after": after, "before": before} {
		if fl.head.spool.file != nil || fl.place != nil {
			t.Errorf("%s: the file is open without a reader", name)
		}
	}
}

// TestDisplacedFillIsNobodysFailure: a reader who waited for a fill that ended because a newer one took its key, or that never ran, looks again; it counts
// neither as the origin's failure nor as the reader's answer.
func TestDisplacedFillIsNobodysFailure(t *testing.T) {
	for name, err := range map[string]error{
		"superseded": fill.ErrSuperseded, "lease lost": fill.ErrLeaseLost, "no place": errNoSlot, "closed": errNotBegun,
		"as a cause": fmt.Errorf("exchange: %w", fill.ErrSuperseded),
	} {
		t.Run(name, func(t *testing.T) {
			fl := &flight{c: &Cache{}, headReady: make(chan struct{}), head: head{err: err}}
			close(fl.headReady)
			rd := &read{c: fl.c, seen: fl}
			if rd.join(fl) || rd.seen != nil {
				t.Error("the reader was answered with it")
			}
			var ev FillEvent
			if out := fl.broken(&ev, err); out.Kind != fill.Abandoned || ev.Retry != 0 {
				t.Errorf("a body broken off by it: %v, tried again after %v", out.Kind, ev.Retry)
			}
		})
	}
}
