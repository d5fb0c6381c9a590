package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// options are the command line.
type options struct {
	// scenarios are names, empty for all.
	scenarios []string
	// without are names of servers to leave out.
	without  []string
	rounds   int
	duration time.Duration
	// patience is how long one server's run may be put off and repeated while other processes disturb it; 0 takes it as it comes.
	patience time.Duration
	// serverCore and loadCore are where the measured server, and the generator with the origin, run.
	serverCore, loadCore int
	// bin is the proxy, "" to build it.
	bin string
	// page and results are files to write, "" for none.
	page, results string
	// profile is where CPU profiles of the proxy go, "" for none.
	profile string
	// here is the directory of this package, root the module's.
	here, root string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	_, file, _, _ := runtime.Caller(0)
	here := filepath.Dir(file)
	if err := run(ctx, here, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, here string, args []string) error {
	what := ""
	if len(args) > 0 {
		what = args[0]
	}
	switch {
	case what == "micro":
		return micro(ctx, here, args[1:])
	case what == "lookup":
		return lookup(ctx, here)
	case what == "purge":
		return purges(ctx, here, args[1:])
	case what == "purge-job":
		return runPurgeJob(ctx, args[1:])
	case what == "page":
		return rewrite(here)
	case what == "crowd" && len(args) > 1:
		return serveCrowd(args[1])
	default:
		return peers(ctx, readOptions(here))
	}
}

func readOptions(here string) options {
	o := options{here: here, root: filepath.Join(here, "..", "..")}
	var only, without string
	flag.StringVar(&only, "scenario", "", "names of scenarios, separated by commas; all if empty")
	flag.StringVar(&without, "without", "", "names of servers to leave out: nginx, varnish")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds; in each, every server is measured once")
	flag.DurationVar(&o.duration, "duration", 2*time.Second, "length of one run, whole seconds, at most 5s")
	flag.DurationVar(&o.patience, "patience", 0, "how long to wait and repeat for a run that other processes do not disturb, each time")
	flag.IntVar(&o.serverCore, "server-core", 0, "core of the measured server")
	flag.IntVar(&o.loadCore, "load-core", 1, "core of the load generator and the origin")
	flag.StringVar(&o.bin, "bin", os.Getenv("SWRPROXY_BIN"), "proxy to measure instead of building it")
	flag.StringVar(&o.page, "page", filepath.Join(o.root, "docs", "performance.md"), "page to write, empty for none")
	flag.StringVar(&o.results, "results", filepath.Join(here, "results.json"), "where the last figures of every scenario are kept, empty for none")
	flag.StringVar(&o.profile, "profile", "", "directory for CPU profiles of the proxy, one per scenario, taken in a run of its own")
	flag.Parse()
	o.scenarios, o.without = words(only), words(without)
	return o
}

func words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

// peers measures the servers against each other.
func peers(ctx context.Context, o options) error {
	if err := o.check(); err != nil {
		return err
	}
	if err := installMissing(ctx); err != nil {
		return err
	}
	b, err := openBench(ctx, o)
	if err != nil {
		return err
	}
	defer b.close()
	for _, s := range chosen(o.scenarios) {
		res, err := b.measure(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Println(table(res))
		if err := b.keep(res); err != nil {
			return err
		}
	}
	return nil
}

func (o options) check() error {
	if o.duration < time.Second || o.duration > 5*time.Second {
		return fmt.Errorf("-duration %s: must be from 1s to 5s", o.duration)
	}
	if o.rounds < 1 {
		return fmt.Errorf("-rounds %d: must be at least 1", o.rounds)
	}
	if n := runtime.NumCPU(); o.serverCore == o.loadCore || o.serverCore >= n || o.loadCore >= n {
		return fmt.Errorf("-server-core %d and -load-core %d: must be two of %d cores", o.serverCore, o.loadCore, n)
	}
	for _, name := range o.scenarios {
		if !known(name) {
			return fmt.Errorf("-scenario %s: there are %s", name, strings.Join(scenarioNames(), ", "))
		}
	}
	return nil
}
