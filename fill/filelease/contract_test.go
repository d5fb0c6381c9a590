package filelease

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/swrproxy/swrproxy/fill"
	"github.com/swrproxy/swrproxy/fill/filltest"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(holderVar); dir != "" {
		if err := holder(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func open(t *testing.T, o Options) *Keeper {
	t.Helper()
	k, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestContract(t *testing.T) {
	filltest.Run(t, func(t *testing.T, o fill.Options) filltest.Keeper {
		return open(t, Options{Dir: t.TempDir(), Tenure: o.Tenure})
	})
}

func TestContractBetweenProcesses(t *testing.T) {
	filltest.RunPair(t, func(t *testing.T, o fill.Options) (a, b filltest.Keeper) {
		both := Options{Dir: t.TempDir(), Tenure: o.Tenure, Poll: o.Poll}
		return open(t, both), open(t, both)
	})
}

func TestModel(t *testing.T) {
	schedules := 30
	if testing.Short() {
		schedules = 5
	}
	filltest.RunModel(t, schedules, func(t *testing.T, o fill.Options) []filltest.Keeper {
		both := Options{Dir: t.TempDir(), Tenure: o.Tenure, Poll: o.Poll}
		return []filltest.Keeper{open(t, both), open(t, both)}
	})
}
