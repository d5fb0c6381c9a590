package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"

	"github.com/swrproxy/swrproxy/integration/proc"
)

// options are the command line.
type options struct {
	// suite is a checkout to use, "" to install the npm edition.
	suite string
	// bin is the proxy, "" to build it.
	bin string
	// id is the only test to run, with its traffic shown.
	id string
	// runs is how often to run the whole suite; the results must agree.
	runs   int
	update bool
	// here is the directory of this package, root the module's.
	here, root string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, readOptions()); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		stop()
		os.Exit(1)
	}
}

func readOptions() options {
	var o options
	flag.StringVar(&o.suite, "suite", os.Getenv("SWRPROXY_SUITE"), "checkout of the suite to use instead of the npm edition")
	flag.StringVar(&o.bin, "bin", os.Getenv("SWRPROXY_BIN"), "proxy to test instead of building it")
	flag.StringVar(&o.id, "id", "", "run this test only and show its traffic")
	flag.IntVar(&o.runs, "runs", 1, "how often to run; the results must agree")
	flag.BoolVar(&o.update, "update", false, "accept the results as the new baseline")
	flag.Parse()
	_, file, _, _ := runtime.Caller(0)
	o.here = filepath.Dir(file)
	o.root = filepath.Join(o.here, "..", "..")
	return o
}

func run(ctx context.Context, o options) error {
	s, err := openSuite(ctx, o)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "swrproxy-conformance-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if o.bin == "" {
		if o.bin, err = proc.Build(ctx, tmp, proc.BuildOptions{}); err != nil {
			return err
		}
	}
	b := bench{suite: s, bin: o.bin, dir: tmp, extra: filepath.Join(o.here, "extra.yaml")}
	if o.id != "" {
		return b.one(ctx, o.id)
	}
	results, err := b.repeat(ctx, o.runs)
	if err != nil {
		return err
	}
	return conclude(o, s, results)
}

// conclude prints, writes and compares the results of a whole run.
func conclude(o options, s suite, all results) error {
	devs, err := readDeviations(filepath.Join(o.here, "deviations.json"))
	if err != nil {
		return err
	}
	all.print(os.Stdout, devs)
	if !s.installed {
		// Another edition has its own tests under the same names: nothing to compare with, and the page is about the npm edition.
		return all.broken(devs)
	}
	page := filepath.Join(o.root, "docs", "conformance.md")
	if err := writePage(page, filepath.Join(o.here, "extra.yaml"), all, devs); err != nil {
		return err
	}
	file := filepath.Join(o.here, "baseline.json")
	if o.update {
		return errors.Join(all.broken(devs), writeBaseline(file, all))
	}
	return errors.Join(all.broken(devs), compareBaseline(file, all))
}
