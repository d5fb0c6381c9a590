// Command swrproxy is a caching reverse proxy that serves stale while it revalidates.
//
//	swrproxy --origin http://127.0.0.1:3000          in front of one origin
//	swrproxy --config swrproxy.yaml                  as the file says
//	swrproxy check --config swrproxy.yaml            tells what is wrong with a file
//	swrproxy demo                                    a slow origin and the proxy, to try it
//
// It prints its addresses on standard output, log lines go to standard error. SIGTERM and SIGINT drain, a second one cuts,
// a third one ends at once; SIGHUP reads the settings again. The exit status is 0 after a drain, 1 on any failure.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/swrproxy/swrproxy/internal/config"
)

func main() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	os.Exit(run(os.Args[1:], process{out: os.Stdout, errs: os.Stderr, signals: signals}))
}

// process is what a command has of its surroundings.
type process struct {
	out, errs io.Writer
	signals   <-chan os.Signal
}

// run executes one command line and returns the exit status.
func run(args []string, p process) int {
	cmd := rootCommand(p)
	cmd.SetArgs(args)
	cmd.SetOut(p.out)
	cmd.SetErr(p.errs)
	if err := cmd.Execute(); err != nil {
		report(p.errs, err)
		return 1
	}
	return 0
}

// report writes mistakes in settings as they are: they begin with their place. Anything else gets the program's name in front.
func report(w io.Writer, err error) {
	if e, ok := errors.AsType[*config.Error](err); ok {
		fmt.Fprintln(w, e)
		return
	}
	fmt.Fprintf(w, "swrproxy: %v\n", err)
}

func rootCommand(p process) *cobra.Command {
	root := &cobra.Command{
		Use:   "swrproxy",
		Short: "A caching reverse proxy that serves stale while it revalidates",
		Long: "swrproxy stands in front of slow or shaky HTTP origins and answers from its cache. What has expired is served at once and\n" +
			"refreshed in the background, one refresh per record at a time. Without a command it serves.",
		Args:          cobra.NoArgs,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	makeServe(root, p)
	serve := &cobra.Command{Use: "serve", Short: "Run the proxy (the same as without a command)", Args: cobra.NoArgs}
	makeServe(serve, p)
	root.AddCommand(serve, checkCommand(p), demoCommand(p), storeCommand(p), healthCommand(), versionCommand(p))
	root.AddCommand(adminCommands(p)...)
	return root
}
