package integration

import (
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Promise: a stop costs nobody a request.

const (
	drainWorkers = 16
	// drainEvery paces a worker so that all together send 2,000 requests per second.
	drainEvery = drainWorkers * time.Second / 2000
)

func TestTerminationUnderLoad(t *testing.T) {
	o := newOrigin(t).on("/hot", page("Cache-Control: max-age=600")).on("/cold", after(20*time.Millisecond, page("Cache-Control: no-store")))
	p := before(t, o)
	p.prime("/hot")
	var served, after atomic.Int64
	terminated := make(chan struct{})
	var done sync.WaitGroup
	for i := range drainWorkers {
		path := "/hot"
		if i%8 == 0 {
			path = "/cold"
		}
		w := worker{addr: p.Addr(), raw: request("GET", path), served: &served, after: &after, terminated: terminated}
		done.Go(func() {
			if err := w.run(); err != nil {
				t.Errorf("worker %d, %s: %v", i, path, err)
			}
		})
	}
	if !eventually(func() bool { return served.Load() >= 2000 }) {
		t.Fatalf("only %d requests served", served.Load())
	}
	close(terminated)
	p.terminate(syscall.SIGTERM)
	done.Wait()
	if code := p.ExitCode(); code != 0 {
		t.Errorf("exit status %d, want 0", code)
	}
	t.Logf("%d requests served, %d of them after SIGTERM", served.Load(), after.Load())
}

// A connection that the kernel has accepted for the proxy is one whose client has sent its request: it is answered as well.
func TestTerminationWhileClientsConnect(t *testing.T) {
	o := newOrigin(t).on("/hot", page("Cache-Control: max-age=600"))
	p := before(t, o)
	p.prime("/hot")
	var served, after atomic.Int64
	terminated := make(chan struct{})
	var done sync.WaitGroup
	for range drainWorkers {
		w := worker{
			addr: p.Addr(), raw: request("GET", "/hot", "Connection: close"),
			served: &served, after: &after, terminated: terminated,
		}
		done.Go(func() {
			if err := w.run(); err != nil {
				t.Error(err)
			}
		})
	}
	if !eventually(func() bool { return served.Load() >= 1000 }) {
		t.Fatalf("only %d requests served", served.Load())
	}
	close(terminated)
	p.terminate(syscall.SIGTERM)
	done.Wait()
	if code := p.ExitCode(); code != 0 {
		t.Errorf("exit status %d, want 0", code)
	}
}

// worker sends requests at its pace until the proxy takes no more connections. Everything that it sends on a connection made before the
// stop must be answered; later connections may be refused.
type worker struct {
	addr, raw     string
	served, after *atomic.Int64
	terminated    <-chan struct{}
}

func (w *worker) run() error {
	pace := time.NewTicker(drainEvery)
	defer pace.Stop()
	for {
		late := w.isTerminated()
		c, err := net.Dial("tcp", w.addr)
		if err != nil && w.isTerminated() {
			return nil // refused, as it should be
		}
		if err != nil {
			return err
		}
		err = w.use(newConn(c), pace.C)
		if late && errors.Is(err, syscall.ECONNRESET) {
			return nil // a refusal that came after the kernel had said yes
		}
		if err != nil {
			return err
		}
	}
}

func (w *worker) isTerminated() bool {
	select {
	case <-w.terminated:
		return true
	default:
		return false
	}
}

// use sends on one connection until the proxy closes it or says that it will.
func (w *worker) use(c *conn, pace <-chan time.Time) error {
	defer c.Close()
	for range pace {
		if c.closedByPeer() {
			return nil
		}
		r := c.send(w.raw)
		switch {
		case r.Err != nil:
			return r.Err
		case r.BodyErr != nil:
			return r.BodyErr
		case r.Status != http.StatusOK:
			return errors.New(http.StatusText(r.Status))
		}
		w.count()
		if r.Close {
			return nil
		}
	}
	return nil
}

func (w *worker) count() {
	w.served.Add(1)
	if w.isTerminated() {
		w.after.Add(1)
	}
}

// closedByPeer looks, without waiting, whether the other side has closed. What it sees can not be lost: there is no request under way.
func (c *conn) closedByPeer() bool {
	raw, err := c.Conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return true
	}
	closed := false
	err = raw.Read(func(fd uintptr) bool {
		n, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		closed = n == 0 && err == nil || errors.Is(err, syscall.ECONNRESET)
		return true
	})
	return closed || errors.Is(err, io.EOF)
}

// Requests under way are finished, whether they are answered from the cache, wait for the origin, or are fills that nobody waits for.
func TestTerminationFinishesWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	p := before(t, o)
	g := newGate(t)
	o.on("/busy", g.hold(page("Cache-Control: max-age=60")))
	busy := background(t, p, 5, request("GET", "/busy"))
	o.await("/busy", 1)
	p.awaitWaiting(4)
	p.terminate(syscall.SIGTERM)
	if !eventually(func() bool {
		c, err := net.Dial("tcp", p.Addr())
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	}) {
		t.Error("still accepts connections")
	}
	g.open()
	wantAll(t, busy(), http.StatusOK, version(1, "/busy"))
	if code := p.ExitCode(); code != 0 {
		t.Errorf("exit status %d, want 0", code)
	}
}

// A request that never ends is cut at the limit, and that is still a clean end.
func TestTerminationCutsAtTheLimit(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	p := start(t, conf{Origin: o.url, Extra: "http: { drain: 1s }\n"})
	g := newGate(t)
	o.on("/never", g.hold(page()))
	stuck := background(t, p, 1, request("GET", "/never"))
	o.await("/never", 1)
	began := time.Now()
	code, err := p.Stop(stopLimit)
	if code != 0 || err != nil {
		t.Errorf("exit status %d, %v, want 0", code, err)
	}
	// The limit is for requests; fills and what is left behind them have a grace of their own.
	if took := time.Since(began); took > within(4*time.Second) {
		t.Errorf("took %v to end with a limit of 1 s", took)
	}
	stuck()
}

func TestInterruptEndsCleanly(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/", page("Cache-Control: max-age=60"))
	p := before(t, o)
	p.prime("/")
	p.terminate(syscall.SIGINT)
	if code := p.ExitCode(); code != 0 {
		t.Errorf("exit status %d, want 0", code)
	}
}
