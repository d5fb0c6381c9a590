package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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
	root := filepath.Join(here, "..", "..")
	packages, err := withBenchmarks(root)
	if err != nil {
		return err
	}
	if err := goBenchmarks(ctx, root, io.MultiWriter(out, os.Stdout), *pattern, *each, *count, packages...); err != nil {
		return err
	}
	base := filepath.Join(here, "base.txt")
	if *save {
		return saveBase(out.Name(), base)
	}
	return compare(ctx, root, base, out.Name())
}

// goBenchmarks runs those benchmarks of some packages that pattern names, each count times for as long as each says.
func goBenchmarks(ctx context.Context, root string, out io.Writer, pattern, each string, count int, packages ...string) error {
	args := []string{"test", "-run", "^$", "-bench", pattern, "-benchmem", "-count", fmt.Sprint(count), "-benchtime", each, "-p", "1"}
	cmd := exec.CommandContext(ctx, "go", append(args, packages...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, out, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go test -bench %s: %w", pattern, err)
	}
	return nil
}

// withBenchmarks finds the packages that have benchmarks: building the tests of all others takes longer than running these.
func withBenchmarks(root string) ([]string, error) {
	var packages []string
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if pkg := "./" + dir; bytes.Contains(text, []byte("\nfunc Benchmark")) && !slices.Contains(packages, pkg) {
			packages = append(packages, pkg)
		}
		return err
	})
	return packages, err
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
