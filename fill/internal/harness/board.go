package harness

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The words of a board.
const (
	wordReady    = iota // workers that are up
	wordInside          // callers in the critical section now
	wordMost            // the most there ever were
	wordCounter         // incremented in the section without atomics: an overlap loses updates
	wordOwner           // who entered last
	wordStrays          // releases that counted though their caller did not hold
	wordDone            // acquisitions
	wordAttempts        // tries it took
	wordLongest         // longest wait, in nanoseconds
	wordArrived         // at the sweep's barriers, ever growing
	wordRefused         // keys that nobody got in a round of the sweep
	wordTwice           // grants beyond the first of a key in a round
	wordGranted         // grants of the sweep
	wordKeys            // from here: grants per key in this round
)

// boardWords fits the sweep's keys.
const boardWords = wordKeys + sweepKeys

// Board is counters that all workers of a load share. Safe for concurrent use.
type Board struct {
	words []atomic.Uint64
	unmap func() error
}

// newBoard makes a board within this process.
func newBoard() *Board {
	return &Board{words: make([]atomic.Uint64, boardWords), unmap: func() error { return nil }}
}

// mapBoard maps a board from a file, which is made if it is missing.
func mapBoard(path string) (*Board, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const size = boardWords * 8
	if err := f.Truncate(size); err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map board: %w", err)
	}
	words := unsafe.Slice((*atomic.Uint64)(unsafe.Pointer(&mem[0])), boardWords)
	return &Board{words: words, unmap: func() error { return unix.Munmap(mem) }}, nil
}

func (b *Board) word(i int) *atomic.Uint64 {
	return &b.words[i]
}

// raise makes a word at least v.
func (b *Board) raise(i int, v uint64) {
	w := b.word(i)
	for {
		old := w.Load()
		if old >= v || w.CompareAndSwap(old, v) {
			return
		}
	}
}

// arrive adds one to a word and waits until it has reached target: a barrier that works between processes.
func (b *Board) arrive(i int, target uint64) {
	b.word(i).Add(1)
	for b.word(i).Load() < target {
		time.Sleep(100 * time.Microsecond)
	}
}
