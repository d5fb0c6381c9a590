package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ErrInUse is returned when another process has the store open.
var ErrInUse = errors.New("in use by another process")

// lockPoll is how often a taken lock is tried again.
const lockPoll = 50 * time.Millisecond

// lock takes the directory for this process; closing the file gives it back.
func lock(dir string, wait time.Duration) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(wait); ; time.Sleep(lockPoll) {
		taken, err := tryLock(f)
		if err == nil && !taken {
			return f, writePID(f)
		}
		if err != nil || time.Now().After(deadline) {
			holder := readPID(f)
			_ = f.Close() // nothing was written
			if err == nil {
				err = fmt.Errorf("%w%s", ErrInUse, holder)
			}
			return nil, err
		}
	}
}

func writePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func readPID(f *os.File) string {
	buf := make([]byte, 32)
	n, _ := f.ReadAt(buf, 0) // what can not be read is not said
	if pid := strings.TrimSpace(string(buf[:n])); pid != "" {
		return " (pid " + pid + ")"
	}
	return ""
}
