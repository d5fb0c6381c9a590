package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// edition is the npm package that is installed when no checkout is given.
const edition = "http-cache-tests@0.4.5"

// suite is a copy of the test suite on disk.
type suite struct {
	// root is its directory; server, client and judge are paths below it.
	root, server, client, judge string
	// installed means that it is the npm edition which this command installed.
	installed bool
}

// layouts are where editions keep their programs: the npm edition, then the repository's present one.
var layouts = []suite{
	{server: "server/server.mjs", client: "cli.mjs", judge: "lib/display.mjs"},
	{server: "test-engine/server/server.mjs", client: "test-engine/cli.mjs", judge: "test-engine/lib/results.mjs"},
}

// openSuite finds the suite that o asks for and installs the npm edition if that is wanted and not there.
func openSuite(ctx context.Context, o options) (suite, error) {
	if o.suite != "" {
		return detect(o.suite)
	}
	dir := filepath.Join(o.here, ".suite")
	root := filepath.Join(dir, "node_modules", "http-cache-tests")
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		if err := install(ctx, dir); err != nil {
			return suite{}, err
		}
	}
	s, err := detect(root)
	s.installed = true
	return s, err
}

func install(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	// A package.json of its own keeps npm from looking for one further up.
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte("{\"private\": true}\n"), 0o644); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", edition)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm install %s: %w\n%s", edition, err, out)
	}
	return nil
}

func detect(root string) (suite, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return suite{}, err
	}
	for _, s := range layouts {
		s.root = root
		if _, err := os.Stat(filepath.Join(root, s.client)); err == nil {
			return s, nil
		}
	}
	return suite{}, fmt.Errorf("%s is not a checkout of the suite: neither %s nor %s in it", root, layouts[0].client, layouts[1].client)
}
