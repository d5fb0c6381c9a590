package telemetry

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

// writes collects each Write apart.
type writes struct {
	mu   sync.Mutex // guards following
	list []string
}

func (w *writes) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, string(b))
	return len(b), nil
}

// take returns what was written so far.
func (w *writes) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.list)
}

func TestLinesWaitAtMostTheDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out writes
		b := NewLineBuffer(&out)
		defer b.Close()
		for range 3 {
			b.WriteLevel(zerolog.InfoLevel, []byte("line\n"))
		}
		time.Sleep(lineBufferDelay - 1)
		if got := out.take(); len(got) != 0 {
			t.Errorf("written early: %q", got)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if got := out.take(); len(got) != 1 || got[0] != "line\nline\nline\n" {
			t.Errorf("written %q", got)
		}
	})
}

func TestWarningsAreWrittenAtOnceBehindWhatWaits(t *testing.T) {
	var out writes
	b := NewLineBuffer(&out)
	b.WriteLevel(zerolog.InfoLevel, []byte("first\n"))
	b.WriteLevel(zerolog.WarnLevel, []byte("second\n"))
	if len(out.list) != 1 || out.list[0] != "first\nsecond\n" {
		t.Errorf("written %q", out.list)
	}
	b.WriteLevel(zerolog.InfoLevel, []byte("third\n"))
	if err := b.Close(); err != nil || len(out.list) != 2 {
		t.Errorf("after Close: %q, %v", out.list, err)
	}
	b.WriteLevel(zerolog.InfoLevel, []byte("late\n"))
	if len(out.list) != 3 {
		t.Errorf("a line after Close waits: %q", out.list)
	}
}

func TestLinesStayWhole(t *testing.T) {
	var out writes
	b := NewLineBuffer(&out)
	var wg sync.WaitGroup
	for i := range 4 {
		line := []byte(strings.Repeat(string(rune('a'+i)), 999) + "\n")
		wg.Go(func() {
			for range 200 {
				b.WriteLevel(zerolog.InfoLevel, line)
			}
		})
	}
	wg.Wait()
	b.Close()
	lines := bytes.Split([]byte(strings.Join(out.list, "")), []byte("\n"))
	if len(lines) != 801 {
		t.Errorf("%d lines", len(lines)-1)
	}
	for _, w := range out.list {
		if !strings.HasSuffix(w, "\n") {
			t.Fatal("a write ends within a line")
		}
	}
	for _, l := range lines[:800] {
		if len(l) != 999 || strings.Count(string(l), string(l[0])) != 999 {
			t.Fatalf("mixed line %q", l)
		}
	}
}
