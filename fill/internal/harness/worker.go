package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/swrproxy/swrproxy/fill"
	"github.com/swrproxy/swrproxy/fill/filelease"
)

// Keeper says what a load runs on.
type Keeper string

// The keepers. The last three are wrong on purpose, each in one way.
const (
	Table        Keeper = "table"          // fill.Table; workers are groups of goroutines
	Files        Keeper = "files"          // filelease; workers are processes
	WakeIsGrant  Keeper = "wake-is-grant"  // who is woken believes that it has the key
	ReleaseByKey Keeper = "release-by-key" // anybody's release frees the key
	LooseTry     Keeper = "loose-try"      // looks first and takes then
)

// Keepers are the right ones.
var Keepers = []Keeper{Table, Files}

// open makes the lock that all goroutines of a process share.
func (k Keeper) open(dir string) (lock, error) {
	switch k {
	case Table:
		return leases{fill.New(fill.Options{Tenure: loadLimit})}, nil
	case Files:
		fk, err := filelease.Open(filelease.Options{Dir: dir, Tenure: loadLimit, Poll: 2 * time.Millisecond})
		return leases{fk}, err
	case WakeIsGrant, ReleaseByKey, LooseTry:
		return &wrong{wakeGrants: k == WakeIsGrant, releaseByKey: k == ReleaseByKey, looseTry: k == LooseTry}, nil
	}
	return nil, fmt.Errorf("no keeper %q", string(k))
}

// job is what the workers of a load do.
type job struct {
	kind             string
	workers, callers int
	section          Section
}

const jobContend, jobSweep = "contend", "sweep"

func (j job) work(b *Board, lk lock, worker int) error {
	if j.kind == jobSweep {
		return sweep(b, lk, j, worker)
	}
	return contend(b, lk, j, worker)
}

// run runs a job on fresh ground and returns the board, which the caller unmaps.
func (k Keeper) run(j job) (*Board, error) {
	if k == Files {
		return j.runProcesses()
	}
	lk, err := k.open("")
	if err != nil {
		return nil, err
	}
	b := newBoard()
	errs := make([]error, j.workers)
	var wg sync.WaitGroup
	for w := range j.workers {
		wg.Go(func() { errs[w] = j.work(b, lk, w) })
	}
	wg.Wait()
	return b, errors.Join(append(errs, lk.close(context.Background()))...)
}

// workerVar tells a process that it is a worker, and which.
const workerVar = "FILL_HARNESS_WORKER"

// runProcesses starts this program again as each of the workers.
func (j job) runProcesses() (*Board, error) {
	dir, err := os.MkdirTemp("", "fill-harness-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	b, err := mapBoard(filepath.Join(dir, "board"))
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*loadLimit)
	defer cancel()
	errs := make([]error, j.workers)
	var wg sync.WaitGroup
	for w := range j.workers {
		cmd := exec.CommandContext(ctx, self)
		cmd.Env = append(os.Environ(), workerVar+"="+j.encode(dir, w))
		wg.Go(func() { errs[w] = output(cmd) })
	}
	wg.Wait()
	return b, errors.Join(errs...)
}

func output(cmd *exec.Cmd) error {
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("worker: %w: %s", err, bytes.TrimSpace(said.Bytes()))
	}
	return nil
}

func (j job) encode(dir string, worker int) string {
	return strings.Join([]string{
		j.kind, strconv.Itoa(j.workers), strconv.Itoa(j.callers), string(j.section), strconv.Itoa(worker), dir,
	}, " ")
}

// Worker does a worker's job and exits, if this process was started as one; else it returns.
func Worker() {
	order := os.Getenv(workerVar)
	if order == "" {
		return
	}
	if err := obey(strings.SplitN(order, " ", 6)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func obey(words []string) error {
	if len(words) != 6 {
		return fmt.Errorf("%s=%q", workerVar, words)
	}
	workers, _ := strconv.Atoi(words[1])
	callers, _ := strconv.Atoi(words[2])
	worker, _ := strconv.Atoi(words[4])
	j, dir := job{kind: words[0], workers: workers, callers: callers, section: Section(words[3])}, words[5]
	b, err := mapBoard(filepath.Join(dir, "board"))
	if err != nil {
		return err
	}
	defer b.unmap()
	lk, err := Files.open(filepath.Join(dir, "claims"))
	if err != nil {
		return err
	}
	return errors.Join(j.work(b, lk, worker), lk.close(context.Background()))
}
