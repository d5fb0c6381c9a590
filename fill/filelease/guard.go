package filelease

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/swrproxy/swrproxy/fill"
)

// ErrGuard is returned when the guard lock of a claim could not be had within a second: a process was stopped while it had it.
var ErrGuard = fmt.Errorf("filelease: guard lock is held: %w", fill.ErrBusy)

const (
	// guardCount bounds the open files and how many keys share a guard.
	guardCount = 64
	// guardWait is thousands of times what anybody does with a guard locked.
	guardWait = time.Second
	// guardPause and guardPauseMax are the first and the longest pause between attempts.
	guardPause, guardPauseMax = 20 * time.Microsecond, 2 * time.Millisecond
)

// guard is the lock under which claims are judged and changed, and the counter that gives them tokens. It is held across file operations, so
// that goroutines of this process queue for it at a channel and not at a mutex.
type guard struct {
	turn chan struct{} // of capacity 1; who has sent into it may use the following
	file *os.File      // nil once closed
}

func newGuard(file *os.File) *guard {
	return &guard{turn: make(chan struct{}, 1), file: file}
}

// lock locks the guard against goroutines and processes.
func (g *guard) lock() error {
	g.turn <- struct{}{}
	if g.file == nil {
		<-g.turn
		return fill.ErrClosed
	}
	if err := flock(g.file, guardWait); err != nil {
		<-g.turn
		return err
	}
	return nil
}

// flock locks f within limit. It does not block in the kernel: a lock that a stopped process has would keep a thread for ever.
func flock(f *os.File, limit time.Duration) error {
	began := time.Now()
	for pause := guardPause; ; pause = min(2*pause, guardPauseMax) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case !errors.Is(err, unix.EWOULDBLOCK):
			return fmt.Errorf("filelease: lock %s: %w", f.Name(), err)
		case time.Since(began) > limit:
			return fmt.Errorf("%w: %s", ErrGuard, f.Name())
		}
		time.Sleep(pause)
	}
}

func (g *guard) unlock() {
	_ = unix.Flock(int(g.file.Fd()), unix.LOCK_UN)
	<-g.turn
}

// last returns the highest token that any process gave out under this guard. The guard is locked.
func (g *guard) last() (uint64, error) {
	var text [checkinSize]byte
	n, _ := g.file.ReadAt(text[:], 0)
	if n == 0 {
		return 0, nil
	}
	last, err := strconv.ParseUint(strings.TrimSpace(string(text[:n])), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("filelease: token counter in %s: %w", g.file.Name(), err)
	}
	return last, nil
}

// setLast notes a token. One write of fixed length within a page: a reader after a crash sees the old or the new number.
func (g *guard) setLast(token uint64) error {
	_, err := g.file.WriteAt(fmt.Appendf(nil, "%0*d", checkinSize, token), 0)
	return err
}

func (g *guard) close() error {
	g.turn <- struct{}{}
	defer func() { <-g.turn }()
	if g.file == nil {
		return nil
	}
	f := g.file
	g.file = nil
	return f.Close()
}

// guardName is the guard's file for a claim whose name begins with these digits.
func guardName(name string) string {
	return fmt.Sprintf("guard.%02x", guardIndex(name))
}

func guardIndex(name string) int {
	n, _ := strconv.ParseUint(name[:2], 16, 8)
	return int(n % guardCount)
}
