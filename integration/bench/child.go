package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// child is a process that this program started, pinned to a core.
type child struct {
	cmd *exec.Cmd
	// args are the command line, for the page.
	args []string
	log  *os.File
	done chan struct{}
}

// start runs a command on one core; what it writes goes to a file in dir.
func start(dir string, core int, env []string, args ...string) (*child, error) {
	log, err := os.Create(filepath.Join(dir, filepath.Base(args[0])+".log"))
	if err != nil {
		return nil, err
	}
	pinned := append([]string{"-c", strconv.Itoa(core)}, args...)
	c := &child{cmd: exec.Command("taskset", pinned...), args: args, log: log, done: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.Stdout, c.cmd.Stderr = log, log
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	go func() {
		_ = c.cmd.Wait()
		close(c.done)
	}()
	return c, nil
}

// stop ends the process, by force after 3 s.
func (c *child) stop() {
	if c == nil {
		return
	}
	defer c.log.Close()
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.done:
	case <-time.After(3 * time.Second):
		for _, pid := range tree(c.cmd.Process.Pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		<-c.done
	}
}

// output is what the process has written.
func (c *child) output() string {
	b, _ := os.ReadFile(c.log.Name())
	return strings.TrimSpace(string(b))
}

// listens waits until something accepts connections at addr.
func (c *child) listens(ctx context.Context, addr string) error {
	for range 100 {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-c.done:
			return fmt.Errorf("%s ended:\n%s", strings.Join(c.args, " "), c.output())
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s does not listen on %s:\n%s", c.args[0], addr, c.output())
}

// freeAddr finds a free port of the loopback interface.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// tick is the kernel's unit of CPU time: USER_HZ is 100 on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// cpu is the CPU time that a process and its descendants have used.
func cpu(pid int) (time.Duration, error) {
	var sum time.Duration
	for _, p := range tree(pid) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		st, err := parseStat(string(b))
		if err != nil {
			return 0, err
		}
		sum += time.Duration(st.ticks) * tick
	}
	return sum, nil
}

// machineCPU is the CPU time that all cores have used: user, nice, system, irq and softirq of /proc/stat.
func machineCPU() (time.Duration, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	var user, nice, system, idle, wait, irq, soft int64
	if _, err := fmt.Sscanf(string(b), "cpu %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &wait, &irq, &soft); err != nil {
		return 0, fmt.Errorf("/proc/stat: %w", err)
	}
	return time.Duration(user+nice+system+irq+soft) * tick, nil
}

// stat is what matters of /proc/PID/stat.
type stat struct {
	parent int
	ticks  int64 // utime + stime
}

func parseStat(line string) (stat, error) {
	f := strings.Fields(line[strings.LastIndex(line, ")")+1:]) // the name before it may hold spaces and parentheses
	if len(f) < 13 {
		return stat{}, fmt.Errorf("stat %q: too few fields", line)
	}
	parent, err1 := strconv.Atoi(f[1])
	user, err2 := strconv.ParseInt(f[11], 10, 64)
	system, err3 := strconv.ParseInt(f[12], 10, 64)
	return stat{parent: parent, ticks: user + system}, errors.Join(err1, err2, err3)
}

// tree is a process and its living descendants.
func tree(root int) []int {
	children := map[int][]int{}
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		if st, err := parseStat(string(b)); err == nil {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			children[st.parent] = append(children[st.parent], pid)
		}
	}
	all := []int{root}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}
