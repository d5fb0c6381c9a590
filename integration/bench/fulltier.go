package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

// The proxy twice more, for the scenario of the full memory tier.
const (
	fullTier  = ours + ", full"
	emptyTier = ours + ", empty"
)

// The paced load of that scenario: far below what a core can do, so that a long answer is the proxy's doing and not the queue's.
const (
	pacedConns = 8
	pacedRate  = 10000 // requests per second, of all connections together
	// oneMissIn 20 requests makes 5 % of writes.
	oneMissIn = 20
	hotPaths  = 1000
)

// primeTier makes one of the two proxies what its name says.
func (b *bench) primeTier(ctx context.Context, sub subject) error {
	if sub.name == fullTier {
		if err := b.fillTier(ctx, sub.server); err != nil {
			return err
		}
	}
	return b.heat(sub.server)
}

// fillTier fills the memory tier with answers of 1 KiB that nobody asks for again.
func (b *bench) fillTier(ctx context.Context, s *server) error {
	const enough, longest = 0.95, 5 * time.Minute
	for until := time.Now().Add(longest); ; {
		held, err1 := b.metric(ctx, s, metricHeld)
		most, err2 := b.metric(ctx, s, metricMaximum)
		if err := firstOf(err1, err2); err != nil {
			return err
		}
		b.say("%.0f %% of the memory tier is full", 100*held/most)
		if held >= enough*most {
			return nil
		}
		if time.Now().After(until) {
			return fmt.Errorf("only %.0f %% of the memory tier is full after %s", 100*held/most, longest)
		}
		b.runs++
		if _, err := wrk(ctx, b.o.loadCore, 64, 10*time.Second, "-s", b.script, "http://"+s.plain, "--", fmt.Sprintf("/fill/%d/", b.runs)); err != nil {
			return err
		}
	}
}

// heat asks for the paths that the hits will be of, twice: what was asked for again is what the tier keeps.
func (b *bench) heat(s *server) error {
	return onCore(b.o.loadCore, func() error {
		c, err := dial(s.plain)
		if err != nil {
			return err
		}
		defer c.close()
		for n := range 2 * hotPaths {
			if _, err := c.get(hotPath(n)); err != nil {
				return err
			}
		}
		return nil
	})
}

func hotPath(n int) string { return fmt.Sprint("/hot/", n%hotPaths) }

// paced makes requests at a steady rate, one in twenty a miss. The latencies are those of hits. Where a run is no longer than usual, it has the proxy
// collect its garbage meanwhile: with this much memory it does so more seldom.
func (b *bench) paced(ctx context.Context, s scenario, sub subject, d time.Duration) (l load, err error) {
	b.runs++
	if s.lasts == 0 {
		collected := make(chan error, 1)
		stop := time.AfterFunc(d/4, func() { collected <- b.collect(ctx, sub.server) })
		defer func() {
			if !stop.Stop() {
				err = errors.Join(err, <-collected)
			}
		}()
	}
	before, err := b.metric(ctx, sub.server, metricCollections)
	if err != nil {
		return l, err
	}
	l, err = b.pacedLoad(ctx, sub, d)
	after, errAfter := b.metric(ctx, sub.server, metricCollections)
	if err = errors.Join(err, errAfter); err == nil && after == before {
		err = fmt.Errorf("the proxy collected no garbage in a run of %s", d)
	}
	return l, err
}

// collect has a server collect its garbage.
func (b *bench) collect(ctx context.Context, s *server) error {
	_, err := b.adminGet(ctx, s, "/debug/pprof/heap?gc=1")
	return err
}

func (b *bench) pacedLoad(ctx context.Context, sub subject, d time.Duration) (load, error) {
	// Nor should this process collect its own garbage, or wait for its own scheduler, in the middle of measuring.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4 * pacedConns))
	began, run := time.Now(), b.runs
	workers, err := pace(ctx, b.o.loadCore, sub.server.plain, pacedWorker{
		rate: pacedRate, until: began.Add(d), path: func(n int) string { return fullTierPath(run, n) },
	})
	return together(workers, time.Since(began)), err
}

// together is what all workers saw.
func together(workers []pacedWorker, took time.Duration) load {
	var spans []time.Duration
	var requests int64
	for i := range workers {
		spans, requests = append(spans, workers[i].spans...), requests+workers[i].requests
	}
	l := quantiles(spans, took)
	l.requests, l.rate = requests, float64(requests)/took.Seconds()
	return l
}

// pacedWorker is one connection of the paced load. Not safe for concurrent use.
type pacedWorker struct {
	number, rate int
	began, until time.Time
	path         func(n int) string // of the n-th request of all connections
	requests     int64
	spans        []time.Duration // of hits
}

func (w *pacedWorker) work(ctx context.Context, addr string) error {
	c, err := dial(addr)
	if err != nil {
		return err
	}
	defer c.close()
	for n := w.number; ; n += pacedConns {
		due := w.began.Add(time.Duration(n) * time.Second / time.Duration(w.rate))
		if due.After(w.until) || ctx.Err() != nil {
			return context.Cause(ctx)
		}
		late := !sleepUntil(due)
		a, err := c.get(w.path(n))
		if err != nil {
			return err
		}
		w.requests++
		if !a.hit {
			continue
		}
		if late {
			a.sent = due // the answer before it was slow, and this request waited for it
		}
		w.spans = append(w.spans, a.first.Sub(a.sent))
	}
}

// fullTierPath is the n-th path of a run. Which requests are misses moves through the connections.
func fullTierPath(run, n int) string {
	if (n+n/oneMissIn)%oneMissIn == 0 {
		return fmt.Sprintf("/cold/%d/%d", run, n)
	}
	return hotPath(n)
}

// sleepUntil tells false if it was too late for that.
func sleepUntil(t time.Time) bool {
	d := time.Until(t)
	if d <= 0 {
		return false
	}
	span := unix.NsecToTimespec(d.Nanoseconds())
	_ = unix.Nanosleep(&span, nil) // if it is interrupted, the request is a moment early
	return true
}
