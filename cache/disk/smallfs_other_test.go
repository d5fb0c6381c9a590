//go:build !linux

package disk

import (
	"os"
	"testing"
)

// onSmallFS runs a test with a directory on the small file system that smallFSEnv names.
func onSmallFS(t *testing.T, test func(t *testing.T, mount string)) {
	t.Helper()
	mount := os.Getenv(smallFSEnv)
	if mount == "" {
		t.Skipf("%s names no small file system", smallFSEnv)
	}
	test(t, mount)
}
