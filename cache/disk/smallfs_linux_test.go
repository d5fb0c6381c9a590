package disk

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// ownFSEnv names, in a process with a mount namespace of its own, the directory to mount a small file system at.
const ownFSEnv = "SWRPROXY_OWN_FS"

// smallFSBytes is smaller than the budget of any test that uses it.
const smallFSBytes = "64m"

// onSmallFS runs a test with a directory on a small file system: that of smallFSEnv, or one that it mounts where it may. The mount is in a process of its
// own, in a mount namespace of its own: nobody else sees it, and it goes with the process. Where the system does not allow that the test is skipped.
func onSmallFS(t *testing.T, test func(t *testing.T, mount string)) {
	t.Helper()
	switch mount, own := os.Getenv(smallFSEnv), os.Getenv(ownFSEnv); {
	case mount != "":
		test(t, mount)
	case own != "":
		if err := errors.Join(
			syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
			syscall.Mount("tmpfs", own, "tmpfs", 0, "size="+smallFSBytes),
		); err != nil {
			t.Fatal(err)
		}
		test(t, own)
	default:
		inOwnNamespace(t)
	}
}

// inOwnNamespace runs the same test again in a process with a mount namespace of its own.
func inOwnNamespace(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), ownFSEnv+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.EINVAL):
		t.Skipf("no mount namespace here (%v), and %s names no small file system", err, smallFSEnv)
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case !strings.Contains(string(out), "--- PASS: "+t.Name()):
		t.Errorf("the test did not run:\n%s", out)
	default:
		t.Logf("passed on a file system of %s of its own", smallFSBytes)
	}
}
