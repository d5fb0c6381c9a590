package filelease

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/swrproxy/swrproxy/fill"
)

// holderVar makes this test program a holder of a claim in the named directory.
const holderVar = "FILELEASE_TEST_HOLDER"

// holderStale is the stale limit of the pause tests: long against a check-in under load, short for a test.
const holderStale = 600 * time.Millisecond

// holder takes the key, says so, says when the lease's context ends, and tries to commit when told to.
func holder(dir string) error {
	k, err := Open(Options{Dir: dir, Stale: holderStale, Tenure: -1})
	if err != nil {
		return err
	}
	l, err := k.TryAcquire(key)
	if err != nil {
		return err
	}
	fmt.Println("held", l.Token())
	stop := context.AfterFunc(l.Context(), func() { fmt.Println("ended:", context.Cause(l.Context())) })
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	stop()
	fmt.Println("commit:", l.CheckCommit())
	fmt.Println("settle:", l.Finish(fill.Outcome{Kind: fill.Stored}))
	return k.Close(context.Background())
}

// child is a holder in a process of its own.
type child struct {
	*testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func startHolder(t *testing.T, dir string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holderVar+"="+dir)
	cmd.Stderr = os.Stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &child{T: t, cmd: cmd, in: in, out: bufio.NewScanner(out)}
}

// says waits for the child's next line and wants it to begin so.
func (c *child) says(begin string) (rest string) {
	c.Helper()
	if !c.out.Scan() {
		c.Fatalf("the holder ended: %v, want %q", c.out.Err(), begin)
	}
	rest, ok := strings.CutPrefix(c.out.Text(), begin)
	if !ok {
		c.Fatalf("the holder says %q, want %q", c.out.Text(), begin)
	}
	return rest
}

func (c *child) signal(s syscall.Signal) {
	c.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.Fatal(err)
	}
}

func (c *child) commit() {
	c.Helper()
	if _, err := io.WriteString(c.in, "commit\n"); err != nil {
		c.Fatal(err)
	}
}

// takeOver waits until the stopped holder's claim is stale, and takes and commits.
func takeOver(t *testing.T, dir, token string) {
	t.Helper()
	k := opened(t, Options{Dir: dir, Stale: holderStale, Tenure: -1, Poll: 10 * time.Millisecond})
	began := time.Now()
	l, err := k.Acquire(t.Context(), key, time.Minute)
	if err != nil {
		t.Fatalf("take over: %v", err)
	}
	if took := time.Since(began); took > 10*holderStale {
		t.Errorf("took over after %v, want about %v", took, holderStale)
	}
	if fmt.Sprint(l.Token()) <= token { // of equal length
		t.Errorf("token %d took over from %s", l.Token(), token)
	}
	if err := l.CheckCommit(); err != nil {
		t.Errorf("commit: %v", err)
	}
	if err := l.Finish(fill.Outcome{Kind: fill.Stored}); err != nil {
		t.Errorf("settle: %v", err)
	}
}

// A process that was stopped while it held a claim, until another took over and committed, does not commit when it goes on.
func TestPausedHolderDoesNotCommit(t *testing.T) {
	dir := t.TempDir()
	c := startHolder(t, dir)
	token := c.says("held ")
	c.signal(syscall.SIGSTOP)
	takeOver(t, dir, token)
	c.commit() // waits in the pipe: the commit may come before the first check-in
	c.signal(syscall.SIGCONT)
	c.refused()
}

// The same, but the holder is left to notice by itself, at its next check-in.
func TestPausedHolderNotices(t *testing.T) {
	dir := t.TempDir()
	c := startHolder(t, dir)
	token := c.says("held ")
	c.signal(syscall.SIGSTOP)
	takeOver(t, dir, token)
	c.signal(syscall.SIGCONT)
	c.says("ended: " + fill.ErrLeaseLost.Error())
	c.commit()
	c.refused()
}

// refused wants the commit to be refused and the settle not to count, whether or not a check-in came first.
func (c *child) refused() {
	c.Helper()
	lost := fill.ErrLeaseLost.Error()
	for _, begin := range []string{"commit: ", "settle: "} {
		line := c.says("")
		if strings.HasPrefix(line, "ended: "+lost) {
			line = c.says("")
		}
		if !strings.HasPrefix(line, begin) || !strings.Contains(line, lost) {
			c.Errorf("the holder says %q, want %s%s", line, begin, lost)
		}
	}
	if err := c.cmd.Wait(); err != nil {
		c.Errorf("the holder: %v", err)
	}
}

// A pause alone costs nothing: with nobody there to rob it, the holder goes on.
func TestPausedHolderWithNobodyThereGoesOn(t *testing.T) {
	dir := t.TempDir()
	c := startHolder(t, dir)
	c.says("held ")
	c.signal(syscall.SIGSTOP)
	f := files{dir: dir, instance: "nobody", stale: holderStale}
	for f.Busy(key) {
		time.Sleep(10 * time.Millisecond) // until the claim is stale by the wall clock
	}
	c.commit()
	c.signal(syscall.SIGCONT)
	c.says("commit: <nil>")
	c.says("settle: <nil>")
}

// A holder that died is followed after the stale limit.
func TestKilledHolderIsFollowed(t *testing.T) {
	dir := t.TempDir()
	c := startHolder(t, dir)
	token := c.says("held ")
	c.signal(syscall.SIGKILL)
	takeOver(t, dir, token)
}
