package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// The proxy once more, with an origin of its own, for the scenario of the purge, and what is measured of it.
const (
	crowded = ours + ", crowd"
	calm    = ours + ", before the purge"
	purged  = ours + ", from the purge on"
)

const (
	crowdRecords = 100_000
	crowdRate    = 2000 // requests per second, of all connections together
	// calmFor and purgedFor are the two halves of a round. Not even a tenth of the records is asked for in the second, so there are stale ones in
	// all of it.
	calmFor, purgedFor = 3 * time.Second, 5 * time.Second
	// crowdDelay is how long the origin takes to refresh a record. More refreshes are asked for than crowdFills at once, so that bound shows.
	crowdDelay = 300 * time.Millisecond
	crowdFills = 512
)

// crowdConf is the proxy's configuration; crowdFills is the default, written out since it is checked.
var crowdConf = `listen: [http://PLAIN, https://SECURE]
admin: { listen: ADMIN, pprof: true }
tls: { cert: CERT, key: KEY }
log: { access: false }
memory: { max: 2GiB }
fill: { concurrency: ` + fmt.Sprint(crowdFills) + ` }
origins:
  crowd: { url: http://CROWD }
rules:
  - origin: crowd
`

// crowdOrigin is the origin of the records, which all have one tag. It counts the requests that it has at once. Safe for concurrent use.
type crowdOrigin struct {
	delay               atomic.Int64 // nanoseconds that each answer takes
	now, most, answered atomic.Int64
}

func (c *crowdOrigin) answer(w http.ResponseWriter, _ *http.Request) {
	now := c.now.Add(1)
	defer c.now.Add(-1)
	for most := c.most.Load(); now > most && !c.most.CompareAndSwap(most, now); most = c.most.Load() {
	}
	time.Sleep(time.Duration(c.delay.Load()))
	h := w.Header()
	h.Set("Cache-Control", "max-age=3600, stale-while-revalidate=3600")
	h.Set("Content-Type", "text/plain")
	h.Set("Surrogate-Key", "crowd")
	_, _ = w.Write(kibi)
	c.answered.Add(1)
}

// begin tells how many requests there were at once and how many were answered, and counts anew with another delay.
func (c *crowdOrigin) begin(w http.ResponseWriter, r *http.Request) {
	d, err := time.ParseDuration(r.PathValue("delay"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.delay.Store(int64(d))
	fmt.Fprintln(w, c.most.Swap(0), c.answered.Swap(0))
}

// serveCrowd is this program as an origin.
func serveCrowd(addr string) error {
	c, mux := &crowdOrigin{}, http.NewServeMux()
	mux.HandleFunc("GET /crowd/", c.answer)
	mux.HandleFunc("GET /begin/{delay}", c.begin)
	return (&http.Server{Addr: addr, ReadHeaderTimeout: time.Minute, Handler: mux}).ListenAndServe()
}

// crowd is that origin from outside: a process of its own, since the scheduler that its requests share would stand between the client and the clock.
type crowd struct {
	addr string
	proc *child
	// fresh is that no record was purged since all were stored.
	fresh bool
}

func openCrowd(ctx context.Context, dir string, core int) (*crowd, error) {
	addr, err1 := freeAddr()
	self, err2 := os.Executable()
	if err := firstOf(err1, err2); err != nil {
		return nil, err
	}
	proc, err := start(dir, core, []string{"GOMAXPROCS=1"}, self, "crowd", addr)
	if err != nil {
		return nil, err
	}
	return &crowd{addr: addr, proc: proc}, proc.listens(ctx, addr)
}

func (c *crowd) close() {
	if c != nil {
		c.proc.stop()
	}
}

// cpu is what the origin has used.
func (c *crowd) cpu() (time.Duration, error) {
	if c == nil {
		return 0, nil
	}
	return cpu(c.proc.cmd.Process.Pid)
}

// begin is crowdOrigin's, asked from here.
func (c *crowd) begin(ctx context.Context, client *http.Client, delay time.Duration) (most, answered int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/begin/%s", c.addr, delay), nil)
	if err != nil {
		return 0, 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	_, err = fmt.Fscanln(resp.Body, &most, &answered)
	return most, answered, err
}

func crowdPath(n int) string { return fmt.Sprint("/crowd/", n) }

// startCrowded starts the proxy and its origin.
func (b *bench) startCrowded(ctx context.Context, p place) (*server, error) {
	var err error
	if b.crowd, err = openCrowd(ctx, p.ram, b.o.loadCore); err != nil {
		return nil, err
	}
	return startOurs(ctx, p, crowded, fill(crowdConf, map[string]string{"CROWD": b.crowd.addr}))
}

// gather makes all records fresh, through the proxy.
func (b *bench) gather(ctx context.Context, s *server) error {
	c := b.crowd
	if c.fresh {
		return nil
	}
	_, _, err := c.begin(ctx, b.client, 0)
	if err := firstOf(err, b.purge(ctx, s, `{"all":true}`)); err != nil {
		return err
	}
	g, asking := errgroup.WithContext(ctx)
	for i := range pacedConns {
		g.Go(func() error {
			return onCore(b.o.loadCore, func() error { return askAll(asking, s.plain, i) })
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	_, n, err := c.begin(ctx, b.client, crowdDelay)
	if err == nil && n < crowdRecords {
		err = fmt.Errorf("only %d of %d records were fetched", n, crowdRecords)
	}
	c.fresh = err == nil
	return err
}

// askAll asks for every record that is the first-th of pacedConns.
func askAll(ctx context.Context, addr string, first int) error {
	c, err := dial(addr)
	if err != nil {
		return err
	}
	defer c.close()
	for n := first; n < crowdRecords && ctx.Err() == nil; n += pacedConns {
		if _, err := c.get(crowdPath(n)); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// askCrowd asks for records at random while nothing happens, or from the moment on at which all are purged softly.
func (b *bench) askCrowd(ctx context.Context, sub subject) (load, error) {
	span, during := calmFor, func() error { return nil }
	if sub.name == purged {
		b.crowd.fresh = false
		span, during = purgedFor, func() error { return b.purge(ctx, sub.server, `{"tags":["crowd"],"soft":true}`) }
	}
	failed := make(chan error, 1)
	go func() { failed <- during() }()
	workers, err := pace(ctx, b.o.loadCore, sub.server.plain, pacedWorker{
		rate: crowdRate, until: time.Now().Add(span), path: func(int) string { return crowdPath(rand.IntN(crowdRecords)) },
	})
	l := together(workers, span)
	most, _, asked := b.crowd.begin(ctx, b.client, crowdDelay)
	return l, errors.Join(err, <-failed, asked, b.crowdKept(sub, l, workers, most))
}

// crowdKept checks that every answer came from the store, that the purge had refreshes follow, and never too many at once.
func (b *bench) crowdKept(sub subject, l load, workers []pacedWorker, most int) error {
	hits := 0
	for i := range workers {
		hits += len(workers[i].spans)
	}
	switch {
	case int64(hits) != l.requests:
		return fmt.Errorf("only %d of %d answers were hits", hits, l.requests)
	case most > crowdFills:
		return fmt.Errorf("the origin had %d requests at once, fill.concurrency is %d", most, crowdFills)
	case sub.name == purged && most == 0:
		return errors.New("nothing was refreshed after the purge")
	}
	b.say("%s: at most %d requests at once at the origin", sub.name, most)
	return nil
}

// purge has the proxy purge what a body of the admin API selects.
func (b *bench) purge(ctx context.Context, s *server, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.admin+"/v1/purge", strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("purge %s: answered %s: %s", body, resp.Status, text)
	}
	return err
}

// pace makes requests at a steady rate over pacedConns connections, each a worker like the given one.
func pace(ctx context.Context, core int, addr string, like pacedWorker) ([]pacedWorker, error) {
	like.began = time.Now()
	workers := make([]pacedWorker, pacedConns)
	errs := make([]error, len(workers))
	var wg sync.WaitGroup
	for i := range workers {
		w := &workers[i]
		*w = like
		w.number = i
		wg.Go(func() { errs[i] = onCore(core, func() error { return w.work(ctx, addr) }) })
	}
	wg.Wait()
	return workers, errors.Join(errs...)
}
