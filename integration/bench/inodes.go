package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// ext4 does not give out an inode again that was deleted less than five minutes ago, and looks at all of those in its way whenever it
// creates a file. After a bench that has cleaned up, nginx, which creates a file for each answer, would be at a fifth of its rate.
const (
	// forgets is how long that may last, and some more.
	forgets = 6 * time.Minute
	// slowCreate is the CPU time of creating a file that tells of it: 20 µs are usual, several hundred are seen otherwise.
	slowCreate = 100 * time.Microsecond
)

// awaitInodes waits until files are created in dir as fast as they are on a file system at rest.
func (b *bench) awaitInodes(ctx context.Context, dir string) error {
	const look = 20 * time.Second
	for n, until := 0, time.Now().Add(forgets); ; n++ {
		each, err := createCost(filepath.Join(dir, fmt.Sprint("probe", n)))
		if err != nil || each < slowCreate {
			return err
		}
		if time.Now().After(until) {
			return fmt.Errorf("creating a file in %s takes %s of CPU time, after %s still: set TMPDIR to a file system at rest", dir, each, forgets)
		}
		b.say("creating a file in %s takes %s of CPU time: files were deleted there minutes ago; waiting", dir, each)
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// createCost is the CPU time that creating a file takes, in directories made for it as nginx makes its own.
func createCost(dir string) (time.Duration, error) {
	const dirs, files = 64, 16
	before, err := systemTime()
	for d := 0; err == nil && d < dirs; d++ {
		sub := filepath.Join(dir, fmt.Sprintf("%x", d%16), fmt.Sprintf("%02x", d))
		err = os.MkdirAll(sub, 0o755)
		for f := 0; err == nil && f < files; f++ {
			err = os.WriteFile(filepath.Join(sub, fmt.Sprint(f)), kibi, 0o644)
		}
	}
	if err != nil {
		return 0, err
	}
	after, err := systemTime()
	return (after - before) / (dirs * files), err
}

// systemTime is what the kernel has worked for this process.
func systemTime() (time.Duration, error) {
	r := unix.Rusage{}
	err := unix.Getrusage(unix.RUSAGE_SELF, &r)
	return time.Duration(r.Stime.Nano()), err
}
