package proc

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// BuildOptions says how Build compiles.
type BuildOptions struct {
	// Race builds with the race detector.
	Race bool
	// Package is what to build. "" means the proxy itself.
	Package string
}

// Build compiles the binary into dir and returns its path.
func Build(ctx context.Context, dir string, o BuildOptions) (string, error) {
	pkg := o.Package
	if pkg == "" {
		pkg = "github.com/swrproxy/swrproxy/cmd/swrproxy"
	}
	bin := filepath.Join(dir, filepath.Base(pkg))
	args := []string{"build", "-o", bin}
	if o.Race {
		args = append(args, "-race")
	}
	out, err := exec.CommandContext(ctx, "go", append(args, pkg)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", pkg, err, strings.TrimSpace(string(out)))
	}
	return bin, nil
}
