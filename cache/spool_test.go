package cache

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
)

// fillSpool writes data in pieces of random size.
func fillSpool(s *spool, data []byte, rng *rand.Rand) bool {
	for len(data) > 0 {
		n := copy(s.room(), data[:min(len(data), 1+rng.IntN(9000))])
		s.advance(n)
		data = data[n:]
		if !s.throttle(context.Background()) {
			return false
		}
	}
	return true
}

func readAll(r *spoolReader) ([]byte, error) {
	var got []byte
	for {
		b, err := r.next()
		if err == io.EOF {
			return got, nil
		}
		if err != nil {
			return got, err
		}
		if b == nil {
			if err := r.wait(context.Background()); err != nil {
				return got, err
			}
		}
		got = append(got, b...)
	}
}

func TestSpoolReadersSeeTheSameBytes(t *testing.T) {
	for name, c := range map[string]struct{ limit, expect, size int64 }{
		"known length":         {1 << 20, 300 << 10, 300 << 10},
		"unknown length":       {1 << 20, -1, 300 << 10},
		"empty":                {1 << 20, 0, 0},
		"grows over its limit": {100 << 10, -1, 5 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 1))
			data := make([]byte, c.size)
			for i := range data {
				data[i] = byte(rng.Uint32())
			}
			s := newSpool(c.limit, c.expect)
			var wg sync.WaitGroup
			for range 4 {
				r, ok := s.reader()
				if !ok {
					t.Fatal("no reader")
				}
				wg.Go(func() {
					defer r.close()
					got, err := readAll(r)
					if err != nil || !bytes.Equal(got, data) {
						t.Errorf("read %d bytes of %d, %v", len(got), len(data), err)
					}
				})
			}
			if !fillSpool(s, data, rng) {
				t.Error("writer was told that nobody reads")
			}
			s.finish(nil)
			wg.Wait()
			if s.size() != c.size {
				t.Errorf("size %d", s.size())
			}
			if c.size > c.limit {
				if cap(s.buf) > 4*throughWindow {
					t.Errorf("window holds %d bytes", cap(s.buf))
				}
				if _, ok := s.reader(); ok {
					t.Error("a reader could join after bytes were dropped")
				}
			} else if !bytes.Equal(s.bytes(), data) {
				t.Error("kept bytes differ")
			}
		})
	}
}

func TestSpoolWindowEndsWithItsLastReader(t *testing.T) {
	s := newSpool(10, -1)
	r, _ := s.reader()
	done := make(chan bool)
	go func() { done <- fillSpool(s, make([]byte, 8<<20), rand.New(rand.NewPCG(1, 1))) }()
	r.close()
	if <-done {
		t.Error("the writer went on though nobody reads")
	}
}

func TestSpoolPassesTheWritersErrorOn(t *testing.T) {
	s := newSpool(100, -1)
	r, _ := s.reader()
	s.advance(copy(s.room(), "abc"))
	broken := errors.New("broken")
	s.finish(broken)
	s.finish(nil)
	if got, err := readAll(r); string(got) != "abc" || !errors.Is(err, broken) {
		t.Errorf("read %q, %v", got, err)
	}
}

func TestSpoolReaderLeavesWithItsContext(t *testing.T) {
	s := newSpool(100, -1)
	r, _ := s.reader()
	ctx, cancel := context.WithCancelCause(context.Background())
	gone := errors.New("gone")
	cancel(gone)
	if err := r.wait(ctx); !errors.Is(err, gone) {
		t.Errorf("wait: %v", err)
	}
}
