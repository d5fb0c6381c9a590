package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// tools are the programs needed and the Debian packages they come in.
var tools = map[string]string{
	"/usr/sbin/nginx":    "nginx-light",
	"/usr/sbin/varnishd": "varnish",
	"/usr/bin/wrk":       "wrk",
	"/usr/bin/h2load":    "nghttp2-client",
	"/usr/bin/taskset":   "util-linux",
}

// installMissing installs what is missing.
func installMissing(ctx context.Context) error {
	var packages []string
	for bin, pkg := range tools {
		if _, err := os.Stat(bin); err != nil {
			packages = append(packages, pkg)
		}
	}
	if len(packages) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("missing packages %s: installing them needs Debian and root", strings.Join(packages, " "))
	}
	for _, args := range [][]string{{"update"}, append([]string{"install", "-y", "--no-install-recommends"}, packages...)} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		// Debian starts a service as soon as it is installed, on port 80; exit 101 of policy-rc.d is how to say no, RUNLEVEL=1 is the way
		// without writing files.
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}
