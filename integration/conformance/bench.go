package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/swrproxy/swrproxy/integration/proc"
)

// runLimit bounds one run of the suite; most of it are pauses of three seconds within the tests, many at once.
const runLimit = 5 * time.Minute

// loopbackJS makes the suite's origin listen on loopback only; by itself it would take every interface.
//
//go:embed loopback.mjs
var loopbackJS []byte

// baseYAML is a plain configuration; its one argument is the origin's url. extra.yaml is appended to it.
const baseYAML = `listen: 127.0.0.1:0
admin: { listen: 127.0.0.1:0 }
log: { level: info, format: json }
memory: { max: 64MiB }
fill: { tenure: 10s, wait: 15s }
origins:
  app: { url: %s }
`

// bench runs the suite's origin, the proxy and the suite's client together.
type bench struct {
	suite suite
	bin   string
	// dir is for temporary files, extra the configuration fragment.
	dir, extra string
}

// repeat runs the suite n times and reports tests that did not do the same each time.
func (b bench) repeat(ctx context.Context, n int) (results, error) {
	first, err := b.run(ctx)
	if err != nil {
		return results{}, err
	}
	for i := 2; i <= n; i++ {
		next, err := b.run(ctx)
		if err != nil {
			return results{}, err
		}
		if diff := first.differs(next); len(diff) > 0 {
			return results{}, fmt.Errorf("run %d differs from the first in %s", i, strings.Join(diff, ", "))
		}
	}
	return first, nil
}

func (b bench) run(ctx context.Context) (results, error) {
	raw, err := b.client(ctx, "")
	if err != nil {
		return results{}, err
	}
	start := bytes.IndexByte(raw, '{')
	if start < 0 {
		return results{}, fmt.Errorf("the suite printed no results:\n%s", raw)
	}
	return b.suite.judgeAll(ctx, b.dir, raw[start:])
}

// one runs a single test and shows its traffic.
func (b bench) one(ctx context.Context, id string) error {
	out, err := b.client(ctx, id)
	_, _ = os.Stdout.Write(out)
	return err
}

// client starts origin and proxy, runs the suite's client and returns what it printed. With an id the origin's output follows.
func (b bench) client(ctx context.Context, id string) (out []byte, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, runLimit, errors.New("the suite took too long"))
	defer cancel()
	origin, originURL, err := b.startOrigin(ctx)
	if err != nil {
		return nil, err
	}
	defer origin.Kill()
	proxy, err := b.startProxy(ctx, originURL)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop(proxy)) }()
	out, err = b.runClient(ctx, proxy.URL(), id)
	if id != "" {
		out = append(out, "\norigin:\n"+origin.Stdout().String()+"\n\nproxy:\n"+proxy.Stderr().String()+"\n"...)
	}
	return out, err
}

func stop(p *proc.Process) error {
	code, err := p.Stop(40 * time.Second)
	if err != nil || code != 0 {
		return fmt.Errorf("the proxy ended with %d, %w\n%s", code, err, p.Stderr().String())
	}
	return nil
}

// startOrigin runs the suite's server and waits for its address.
func (b bench) startOrigin(ctx context.Context) (*proc.Process, string, error) {
	patch := filepath.Join(b.dir, "loopback.mjs")
	if err := os.WriteFile(patch, loopbackJS, 0o644); err != nil {
		return nil, "", err
	}
	p, err := proc.Start(ctx, proc.Options{
		Bin: "node", Args: []string{"--no-warnings", "--import", patch, b.suite.server}, Dir: b.suite.root,
		Env: []string{"npm_config_protocol=http", "npm_config_port=0", "npm_config_pidfile=" + filepath.Join(b.dir, "server.pid")},
	})
	if err != nil {
		return nil, "", err
	}
	for n := 0; ; {
		line, next, err := p.Stdout().Next(ctx, n)
		if err != nil {
			p.Kill()
			return nil, "", fmt.Errorf("the suite's server: %w\n%s", err, p.Stderr().String())
		}
		if url, ok := strings.CutPrefix(line, "Listening on "); ok {
			return p, strings.TrimSuffix(url, "/"), nil
		}
		n = next
	}
}

func (b bench) startProxy(ctx context.Context, originURL string) (*proc.Process, error) {
	extra, err := os.ReadFile(b.extra)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(b.dir, "swrproxy.yaml")
	if err := os.WriteFile(file, append(fmt.Appendf(nil, baseYAML, originURL), extra...), 0o600); err != nil {
		return nil, err
	}
	return proc.Start(ctx, proc.Options{Bin: b.bin, Args: []string{"serve", "--config", file}, Listeners: 1, Admin: true})
}

func (b bench) runClient(ctx context.Context, url, id string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "node", "--no-warnings", b.suite.client)
	cmd.Dir = b.suite.root
	cmd.Env = append(os.Environ(), "npm_config_base="+url, "npm_config_id="+id, "npm_package_config_id=")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("the suite's client: %w\n%s", err, stderr.String())
	}
	return out, nil
}
