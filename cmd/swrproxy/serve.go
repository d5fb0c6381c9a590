package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/swrproxy/swrproxy/internal/app"
)

// errSecondSignal is the cause of a cut drain.
var errSecondSignal = errors.New("second signal")

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

// drain stops r; a second SIGTERM or SIGINT cuts what is left.
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
			if isStop(s) {
				cut(errSecondSignal)
			}
		}
	}
}

func isStop(s os.Signal) bool { return s == syscall.SIGTERM || s == syscall.SIGINT }
