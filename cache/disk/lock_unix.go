//go:build unix

package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock takes f's lock, which ends with the process at the latest. It tells whether somebody else has it.
func tryLock(f *os.File) (taken bool, err error) {
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

// spaceOf asks path's file system.
func spaceOf(path string) space {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return unknownSpace
	}
	return space{free: int64(st.Bavail) * int64(st.Bsize), total: int64(st.Blocks) * int64(st.Bsize)}
}
