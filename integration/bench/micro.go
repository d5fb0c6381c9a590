package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// micro runs the Go benchmarks and compares them with the saved base.
func micro(ctx context.Context, here string, args []string) error {
	flags := flag.NewFlagSet("micro", flag.ExitOnError)
	count := flags.Int("count", 6, "runs of each benchmark; benchstat wants at least 6")
	each := flags.String("benchtime", "100ms", "length of one run")
	pattern := flags.String("bench", ".", "which benchmarks")
	save := flags.Bool("save", false, "make this run the new base")
	_ = flags.Parse(args)
	out, err := os.CreateTemp("", "swrproxy-bench-*.txt")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", *pattern, "-benchmem", "-count", fmt.Sprint(*count), "-benchtime", *each, "-p", "1", "./...")
	cmd.Dir, cmd.Stderr = filepath.Join(here, "..", ".."), os.Stderr
	cmd.Stdout = io.MultiWriter(out, os.Stdout)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go test -bench: %w", err)
	}
	base := filepath.Join(here, "base.txt")
	if *save {
		return saveBase(out.Name(), base)
	}
	return compare(ctx, cmd.Dir, base, out.Name())
}

// saveBase keeps the lines that benchstat reads.
func saveBase(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, benchmarkLines(b), 0o644)
}

// compare prints benchstat's table.
func compare(ctx context.Context, dir, base, now string) error {
	if _, err := os.Stat(base); err != nil {
		return fmt.Errorf("no base to compare with, make one with -save: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "tool", "benchstat", "base="+base, "now="+now)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("benchstat: %w", err)
	}
	return nil
}
