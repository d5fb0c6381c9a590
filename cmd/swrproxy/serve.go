package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/swrproxy/swrproxy/internal/app"
	"github.com/swrproxy/swrproxy/internal/hugepages"
)

var (
	// errSecondSignal is the cause of a cut drain.
	errSecondSignal = errors.New("second signal")
	// errThirdSignal means that not even what was cut short has been waited for.
	errThirdSignal = errors.New("third signal: ended at once, what waited to be written to disk may be lost")
)

func makeServe(cmd *cobra.Command, p process) {
	s := addSettings(cmd)
	cmd.RunE = func(*cobra.Command, []string) error { return serve(s, p) }
}

func serve(s *settings, p process) error {
	cfg, err := s.load()
	if err != nil {
		return err
	}
	if _, err := app.SetMemoryLimit(cfg); err != nil {
		return err
	}
	if cfg.Memory.HugePages {
		hugepages.Advise(int64(cfg.Memory.Max) / 4 * 5) // records, and what they may grow by between two collections
	}
	a, err := app.New(cfg, app.Options{Out: p.out, Log: p.errs, Load: s.load, Version: version()})
	if err != nil {
		return err
	}
	if err := a.Start(); err != nil {
		return err
	}
	return p.await(a)
}

// running is what signals act on.
type running interface {
	Reload() error
	Drain(context.Context) error
	Err() <-chan error
}

// await runs until a signal or the failure of a listener ends it.
func (p process) await(r running) error {
	for {
		select {
		case err := <-r.Err():
			return errors.Join(fmt.Errorf("listener failed: %w", err), p.drain(r))
		case s := <-p.signals:
			if s != syscall.SIGHUP {
				return p.drain(r)
			}
			_ = r.Reload() // the App logs it; the old settings go on
		}
	}
}

// drain stops r. A second SIGTERM or SIGINT cuts requests and fills, but what waits to be written to disk still is; a third one waits
// for nothing.
func (p process) drain(r running) error {
	ctx, cut := context.WithCancelCause(context.Background())
	defer cut(nil)
	done := make(chan error, 1)
	go func() { done <- r.Drain(ctx) }()
	for {
		select {
		case err := <-done:
			return err
		case s := <-p.signals:
			switch {
			case !isStop(s):
			case ctx.Err() == nil:
				cut(errSecondSignal)
			default:
				return errThirdSignal
			}
		}
	}
}

func isStop(s os.Signal) bool { return s == syscall.SIGTERM || s == syscall.SIGINT }
