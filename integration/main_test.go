package integration

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/swrproxy/swrproxy/integration/proc"
)

// Environment variables, see doc.go.
const (
	binEnv   = "SWRPROXY_BIN"
	raceEnv  = "SWRPROXY_RACE"
	slackEnv = "SWRPROXY_SLACK"
)

// binary is the path of the proxy under test, set by TestMain.
var binary string

// defaultSlack and defaultPause widen time bounds for machines that do other things as well, or stand still for a moment.
const (
	defaultSlack = 3
	defaultPause = time.Second
)

// parallelTests is how many tests run at once: most of their time they wait for a lifetime or a tenure.
const parallelTests = "8"

func TestMain(m *testing.M) {
	if err := setParallel(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// setParallel changes the default of -parallel, which is the number of processors.
func setParallel() error {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return nil
	}
	return flag.Set("test.parallel", parallelTests)
}

func run(m *testing.M) (int, error) {
	if binary = os.Getenv(binEnv); binary != "" {
		return m.Run(), nil
	}
	dir, err := os.MkdirTemp("", "swrproxy-integration-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	binary, err = proc.Build(context.Background(), dir, proc.BuildOptions{Race: os.Getenv(raceEnv) != ""})
	if err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// within returns a bound on wall-clock time, widened by the slack that this machine was given.
func within(d time.Duration) time.Duration {
	if v, err := strconv.ParseFloat(os.Getenv(slackEnv), 64); err == nil && v > 0 {
		return time.Duration(float64(d) * v)
	}
	return defaultSlack*d + defaultPause
}
