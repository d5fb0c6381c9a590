package integration

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/swrproxy/swrproxy/integration/proc"
)

// Promise: a data race in the proxy fails the test that ran it, whatever else that test asserts.

// racyEnv makes TestOfARacyProgram run: the child of TestARaceFailsItsTest sets it.
const racyEnv = "SWRPROXY_RACY"

// TestARaceFailsItsTest runs tests that assert nothing against a program with a race: each of them has to fail, for that alone.
func TestARaceFailsItsTest(t *testing.T) {
	t.Parallel()
	if os.Getenv(raceEnv) == "" {
		t.Skipf("it needs the race detector, and with it a C compiler; set %s=1", raceEnv)
	}
	bin, err := proc.Build(t.Context(), t.TempDir(), proc.BuildOptions{Race: true, Package: "./testdata/racy"})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Stopped", "Killed", "Command"} {
		t.Run(name, func(t *testing.T) {
			test := exec.Command(os.Args[0], "-test.run=^TestOfARacyProgram$/^"+name+"$", "-test.v")
			test.Env = append(os.Environ(), racyEnv+"=1", binEnv+"="+bin)
			out, err := test.CombinedOutput()
			if _, failed := errors.AsType[*exec.ExitError](err); !failed {
				t.Errorf("the test passed: %v", err)
			}
			for _, want := range []string{"--- FAIL: TestOfARacyProgram/" + name, "WARNING: DATA RACE", "main.race"} {
				if !strings.Contains(string(out), want) {
					t.Errorf("its output lacks %q:\n%s", want, out)
				}
			}
		})
	}
}

// TestOfARacyProgram has a test for each way in which tests run the binary. None has an assertion of its own.
func TestOfARacyProgram(t *testing.T) {
	if os.Getenv(racyEnv) == "" {
		t.Skip("TestARaceFailsItsTest runs it")
	}
	t.Run("Stopped", func(t *testing.T) { startArgs(t, 1, "serve").mayFail = true })
	t.Run("Killed", func(t *testing.T) {
		p := startArgs(t, 1, "serve")
		p.mayFail = true
		p.terminate(syscall.SIGKILL)
	})
	t.Run("Command", func(t *testing.T) { command(t, "check") })
}
