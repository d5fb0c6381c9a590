package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// aheadEnv tells the tests of this package by how much the clock is ahead, as a time.Duration. Unset means not at all.
const aheadEnv = "CLOCK_AHEAD"

// self is tested with every run, to show that the clock is moved.
const self = "github.com/swrproxy/swrproxy/integration/clock"

func main() {
	days := flag.Int("days", 400, "days by which the wall clock is ahead")
	flag.Parse()
	if err := run(time.Duration(*days)*24*time.Hour, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "clock:", err)
		os.Exit(1)
	}
}

// run tests packages with the clock moved by ahead, which is whole seconds.
func run(ahead time.Duration, packages []string) error {
	if len(packages) == 0 {
		return errors.New("no packages given")
	}
	dir, err := os.MkdirTemp("", "swrproxy-clock-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	overlay, err := writeOverlay(dir, ahead)
	if err != nil {
		return err
	}
	args := append([]string{"test", "-overlay", overlay, "-shuffle=on", self}, packages...)
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), aheadEnv+"="+ahead.String())
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("tests with the clock %v ahead: %w", ahead, err)
	}
	return nil
}

// writeOverlay writes the patched source and the overlay that names it into dir, and returns the overlay's path.
func writeOverlay(dir string, ahead time.Duration) (string, error) {
	original, err := timeSource()
	if err != nil {
		return "", err
	}
	source, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	patched, err := patch(source, ahead)
	if err != nil {
		return "", fmt.Errorf("%s: %w", original, err)
	}
	replacement := filepath.Join(dir, "time.go")
	if err := os.WriteFile(replacement, patched, 0o600); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{original: replacement}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

// timeSource is the path of the toolchain's source of time.Now.
func timeSource() (string, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go"), nil
}
