package proc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// startLimit bounds how long a child may take to print its addresses; a race-built binary on a busy machine needs seconds.
const startLimit = 20 * time.Second

// ErrStillRunning is returned by Stop when the child had to be killed because it did not end by itself.
var ErrStillRunning = errors.New("proc: still running after SIGTERM, killed")

// Options describe a child.
type Options struct {
	// Bin is the binary, Args its arguments.
	Bin  string
	Args []string
	// Env is added to the environment of this process. A race-built child writes its reports to stderr unless Env has another GORACE.
	Env []string
	// Dir is the working directory, "" this process's own.
	Dir string
	// Listeners is how many "listening on" lines to wait for, Admin whether to wait for an "admin on" line as well.
	Listeners int
	Admin     bool
}

// Process is a running child. Safe for concurrent use.
type Process struct {
	cmd    *exec.Cmd
	stdout Lines
	stderr Lines
	exited chan struct{}
	// waitErr is set before exited closes.
	waitErr error

	urls  []string
	admin string
}

// Start runs a child and returns when it has printed the addresses that o asks for.
func Start(ctx context.Context, o Options) (*Process, error) {
	p := &Process{cmd: exec.Command(o.Bin, o.Args...), exited: make(chan struct{})}
	p.cmd.Env = slices.Concat(os.Environ(), []string{"GORACE=log_path=stderr"}, o.Env)
	p.cmd.Dir = o.Dir
	if err := p.launch(); err != nil {
		return nil, fmt.Errorf("start %s: %w", o.Bin, err)
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := p.awaitAddresses(ctx, o); err != nil {
		p.Kill()
		return nil, fmt.Errorf("%s %s: %w\nstdout:\n%s\nstderr:\n%s", o.Bin, strings.Join(o.Args, " "), err,
			p.stdout.String(), p.stderr.String())
	}
	return p, nil
}

func (p *Process) launch() error {
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	outDone, errDone := p.stdout.follow(stdout), p.stderr.follow(stderr)
	go func() {
		// Wait closes the pipes, so everything must have been read by then.
		<-outDone
		<-errDone
		p.waitErr = p.cmd.Wait()
		close(p.exited)
	}()
	return nil
}

func (p *Process) awaitAddresses(ctx context.Context, o Options) error {
	for n := 0; len(p.urls) < o.Listeners || (o.Admin && p.admin == ""); {
		line, next, err := p.stdout.Next(ctx, n)
		if err != nil {
			return fmt.Errorf("waiting for %d listeners: %w", o.Listeners, err)
		}
		n = next
		p.learn(line)
	}
	return nil
}

func (p *Process) learn(line string) {
	if url, ok := strings.CutPrefix(line, "listening on "); ok {
		p.urls = append(p.urls, strings.TrimSuffix(strings.TrimSpace(url), "/"))
	}
	if url, ok := strings.CutPrefix(line, "admin on "); ok {
		p.admin = strings.TrimSuffix(strings.TrimSpace(url), "/")
	}
}

// URL returns the base of the first listener, without a slash at the end.
func (p *Process) URL() string { return p.urls[0] }

// URLs returns the bases of all listeners in the order in which they were printed.
func (p *Process) URLs() []string { return p.urls }

// Addr returns host:port of the first listener.
func (p *Process) Addr() string {
	_, addr, _ := strings.Cut(p.urls[0], "://")
	return addr
}

// AdminURL returns the base of the admin listener, "" if there is none.
func (p *Process) AdminURL() string { return p.admin }

// Stdout and Stderr return what the child has written so far and will write.
func (p *Process) Stdout() *Lines { return &p.stdout }

// Stderr returns the child's log.
func (p *Process) Stderr() *Lines { return &p.stderr }

// Pid returns the child's process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Signal sends sig to the child.
func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// Exited closes when the child has ended and all its output is read.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// ExitCode returns the exit status of a child that has ended, -1 if a signal ended it. It waits for the end.
func (p *Process) ExitCode() int {
	<-p.exited
	return p.cmd.ProcessState.ExitCode()
}

// Stop sends SIGTERM and waits up to limit for the end; then it kills. It returns the exit status.
func (p *Process) Stop(limit time.Duration) (int, error) {
	if err := p.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return -1, fmt.Errorf("proc: SIGTERM: %w", err)
	}
	select {
	case <-p.exited:
		return p.ExitCode(), nil
	case <-time.After(limit):
		p.Kill()
		return -1, ErrStillRunning
	}
}

// Kill ends the child at once and waits until it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// RSS returns the resident memory of the child in bytes.
func (p *Process) RSS() (int64, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", p.Pid()))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return parseRSS(f)
}

func parseRSS(r io.Reader) (int64, error) {
	for s := bufio.NewScanner(r); s.Scan(); {
		var kib int64
		if n, _ := fmt.Sscanf(s.Text(), "VmRSS: %d kB", &kib); n == 1 {
			return kib << 10, nil
		}
	}
	return 0, errors.New("proc: no VmRSS in status")
}
