package cache

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
)

// fillSpool writes data in pieces of random size.
func fillSpool(s *spool, data []byte, rng *rand.Rand) bool {
	for len(data) > 0 {
		n := copy(s.room(), data[:min(len(data), 1+rng.IntN(90000))])
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
	for name, c := range map[string]struct {
		limit, expect, size int64
		files               Spooler
	}{
		"known length":              {1 << 20, 300 << 10, 300 << 10, nil},
		"unknown length":            {1 << 20, -1, 300 << 10, nil},
		"empty":                     {1 << 20, 0, 0, nil},
		"grows over its limit":      {100 << 10, -1, 5 << 20, nil},
		"file, known length":        {9 << 20, 5 << 20, 5 << 20, &tempFiles{t: t}},
		"file, unknown length":      {9 << 20, -1, 5 << 20, &tempFiles{t: t}},
		"file, over its limit":      {3 << 20, -1, 5 << 20, &tempFiles{t: t}},
		"file, no room":             {9 << 20, -1, 5 << 20, &tempFiles{t: t, room: 2 << 20}},
		"file, no room at all":      {9 << 20, -1, 5 << 20, &tempFiles{t: t, room: 1}},
		"file, can not be made":     {9 << 20, -1, 5 << 20, &tempFiles{t: t, fail: true}},
		"file, small body, no file": {9 << 20, -1, 5 << 10, &tempFiles{t: t, fail: true}},
	} {
		t.Run(name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 1))
			data := make([]byte, c.size)
			for i := range data {
				data[i] = byte(rng.Uint32())
			}
			s := newSpool(c.limit, c.expect, c.files)
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
			if !s.kept() {
				s.finish(nil)
				wg.Wait()
			} else {
				defer wg.Wait()
			}
			if s.size() != c.size {
				t.Errorf("size %d", s.size())
			}
			if s.kept() {
				wantKept(t, s, data)
				return
			}
			if cap(s.buf) > 4*throughWindow {
				t.Errorf("window holds %d bytes", cap(s.buf))
			}
			if _, ok := s.reader(); ok {
				t.Error("a reader could join after bytes were dropped")
			}
			s.finish(nil)
		})
	}
}

// wantKept checks the body of a spool that has all its bytes, then ends it.
func wantKept(t *testing.T, s *spool, data []byte) {
	t.Helper()
	body, err := s.body()
	if err != nil {
		t.Fatal(err)
	}
	r, err := body.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, data) {
		t.Errorf("kept %d bytes of %d, %v", len(got), len(data), err)
	}
	s.finish(nil)
}

// tempFiles is a Spooler on temporary files that take room bytes, any number for 0.
type tempFiles struct {
	t    *testing.T
	room int64
	fail bool
}

var errNoRoom = errors.New("no room")

func (f *tempFiles) NewSpool() (Spool, error) {
	if f.fail {
		return nil, errNoRoom
	}
	file, err := os.CreateTemp(f.t.TempDir(), "spool")
	return &tempFile{File: file, room: f.room}, err
}

type tempFile struct {
	*os.File
	room, size int64
}

func (f *tempFile) Write(b []byte) (int, error) {
	if f.room > 0 && f.size+int64(len(b)) > f.room {
		return 0, errNoRoom
	}
	n, err := f.File.Write(b)
	f.size += int64(n)
	return n, err
}

func (f *tempFile) Size() int64 { return f.size }

func (f *tempFile) Body() (Body, error) { return SourceBody(reopen(f.Name()), f.size), nil }

type reopen string

func (r reopen) Open() (io.ReadSeekCloser, error) { return os.Open(string(r)) }

func TestSpoolWindowEndsWithItsLastReader(t *testing.T) {
	s := newSpool(10, -1, nil)
	r, _ := s.reader()
	done := make(chan bool)
	go func() { done <- fillSpool(s, make([]byte, 8<<20), rand.New(rand.NewPCG(1, 1))) }()
	r.close()
	if <-done {
		t.Error("the writer went on though nobody reads")
	}
}

func TestSpoolPassesTheWritersErrorOn(t *testing.T) {
	s := newSpool(100, -1, nil)
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
	s := newSpool(100, -1, nil)
	r, _ := s.reader()
	ctx, cancel := context.WithCancelCause(context.Background())
	gone := errors.New("gone")
	cancel(gone)
	if err := r.wait(ctx); !errors.Is(err, gone) {
		t.Errorf("wait: %v", err)
	}
}
