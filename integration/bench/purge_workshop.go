package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/disk"
	"github.com/swrproxy/swrproxy/cache/memory"
	"github.com/swrproxy/swrproxy/cache/tiered"
)

// workshop is a cache in this process, filled, and the figures that are taken of it.
type workshop struct {
	store, dir, bin string
	// oneTag gives all records the same tag.
	oneTag  bool
	origin  *pageOrigin
	c       *cache.Cache
	h       http.Handler
	tiers   map[string]cache.StatsSource
	figures map[string]float64
}

const (
	pageHost = "example.org"
	// perTag is how many records have the same tag.
	perTag = 100
	// enough is a budget, in bytes of memory and of disk, for a million small records.
	enough = 4 << 30
)

func pagePath(n int) string { return fmt.Sprint("/objects/", n) }

func pageURL(n int) string { return "http://" + pageHost + pagePath(n) }

// tagOf is the tag of a record unless all have the same.
func tagOf(n int) string { return fmt.Sprint("t", n/perTag) }

// pageOrigin answers for all paths. Safe for concurrent use.
type pageOrigin struct {
	oneTag bool
	delay  atomic.Int64 // nanoseconds that each answer takes
}

const pageBody = "a small body of 32 bytes and less"

// RoundTrip is an http.RoundTripper's.
func (o *pageOrigin) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-time.After(time.Duration(o.delay.Load())):
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
	n, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/objects/"))
	if o.oneTag {
		n = 0
	}
	return &http.Response{
		StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{
			"Cache-Control": {"max-age=36000, stale-while-revalidate=36000"}, "Content-Type": {"text/plain"},
			"Date": {time.Now().UTC().Format(http.TimeFormat)}, "Surrogate-Key": {tagOf(n)},
		},
		Body: io.NopCloser(strings.NewReader(pageBody)), ContentLength: int64(len(pageBody)),
	}, err
}

// open makes the cache and stores n records by reading each once. Without tags what the origin says of them is not looked at.
func (w *workshop) open(ctx context.Context, n int, tags bool) error {
	store, err := w.openStore()
	if err != nil {
		return err
	}
	cfg := cache.Config{Store: store}
	if !tags {
		cfg.TagFields = []string{"X-No-Tags"}
	}
	if w.c, err = cache.New(cfg); err != nil {
		return err
	}
	w.origin = &pageOrigin{oneTag: w.oneTag}
	w.h = w.c.Proxy(w.origin)
	if err := w.readAll(ctx, store.(cache.Syncer), n); err != nil {
		return err
	}
	return w.holds(n)
}

func (w *workshop) openStore() (cache.Store, error) {
	mem, err := memory.New(memory.Options{Max: enough})
	w.tiers = map[string]cache.StatsSource{inMemory: mem}
	if err != nil || w.store == inMemory {
		return mem, err
	}
	dsk, err := disk.Open(disk.Options{Path: w.dir, Max: enough})
	if err != nil {
		return nil, err
	}
	w.tiers[withDisk] = dsk
	return tiered.New(mem, dsk), nil
}

// readAll reads n pages on two goroutines, and waits every few thousand until they are stored everywhere: what the disk's queue has no room for is dropped.
func (w *workshop) readAll(ctx context.Context, store cache.Syncer, n int) error {
	const piece = 10_000
	for from := 0; from < n; from += piece {
		var both sync.WaitGroup
		for i := range 2 {
			both.Go(func() {
				a := &nowhere{h: make(http.Header)}
				for p := from + i; p < min(from+piece, n); p += 2 {
					w.read(a, p)
				}
			})
		}
		both.Wait()
		if err := store.Sync(ctx); err != nil {
			return err
		}
	}
	return nil
}

// holds makes sure that all records are where they should be.
func (w *workshop) holds(n int) error {
	for until := time.Now().Add(waitFor); w.c.Stats().Fills > 0 && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
	}
	for tier, s := range w.tiers {
		if held := s.Stats().Records; held < int64(n)*99/100 {
			return fmt.Errorf("%d of %d records are stored in %s", held, n, tier)
		}
	}
	return nil
}

// read asks for a page by the ordinary path.
func (w *workshop) read(a *nowhere, n int) {
	clear(a.h)
	u := url.URL{Path: pagePath(n)}
	w.h.ServeHTTP(a, &http.Request{
		Method: http.MethodGet, URL: &u, Host: pageHost, RequestURI: u.Path, Header: http.Header{}, Body: http.NoBody,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	})
}

// nowhere is an http.ResponseWriter that keeps nothing but its header. Not safe for concurrent use.
type nowhere struct{ h http.Header }

func (a *nowhere) Header() http.Header         { return a.h }
func (a *nowhere) WriteHeader(int)             {}
func (a *nowhere) Write(b []byte) (int, error) { return len(b), nil }

// hitter reads at a steady rate. A read that is due while the one before it is not over is late, and counts from when it was due. Not safe for concurrent use.
type hitter struct {
	w *workshop
	// ordinary takes the handler in place of the servers' hit path.
	ordinary bool
	gap      time.Duration
	targets  [][]byte
	pages    []int
	took     []time.Duration // by the number of the read
	failed   int
}

// newHitter prepares reads of pages for as long as d.
func (w *workshop) newHitter(rate int, d time.Duration, page func() int) *hitter {
	gap := time.Second / time.Duration(rate)
	h := &hitter{w: w, gap: gap, took: make([]time.Duration, d/gap)}
	for range h.took {
		n := page()
		h.pages, h.targets = append(h.pages, n), append(h.targets, []byte(pagePath(n)))
	}
	return h
}

// beside makes the reads on a core of their own while during runs on the other, with all else that this process does.
func (h *hitter) beside(core int, during func(began time.Time) error) error {
	runtime.GC() // what filling left is collected now, not meanwhile
	// More than the cores: hits keep one for themselves, and the collector's share of the others is whole workers.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	if err := pinProcess(core); err != nil {
		return err
	}
	began := time.Now().Add(10 * time.Millisecond)
	done := make(chan error, 1)
	go func() { done <- during(began) }()
	err := onCore(hitsCore, func() error { return h.run(began) })
	return errors.Join(err, <-done)
}

func (h *hitter) run(began time.Time) error {
	q := cache.HitRequest{Method: http.MethodGet, Host: []byte(pageHost)}
	var a cache.HitAnswer
	b := &nowhere{h: make(http.Header)}
	last := began.Add(time.Duration(len(h.took))*h.gap + waitFor)
	for i := range h.took {
		due := began.Add(time.Duration(i) * h.gap)
		if h.took[i] = time.Since(due); time.Now().After(last) {
			continue // so late that the others need not be read
		}
		for q.At = time.Now(); q.At.Before(due); q.At = time.Now() {
		}
		q.Target, a.Head = h.targets[i], a.Head[:0]
		if h.ordinary {
			h.w.read(b, h.pages[i])
		} else if h.w.c.Hit(&q, &a) {
			h.w.c.HitSent(&a, int64(len(a.Body)), true)
		} else {
			h.failed++
		}
		h.took[i] = time.Since(due)
		if h.ordinary && !strings.Contains(b.h.Get("Cache-Status"), "; hit") {
			h.failed++
		}
	}
	if h.failed > 0 {
		return fmt.Errorf("%d of %d reads were no hits", h.failed, len(h.took))
	}
	return nil
}

// report adds p50 and p99 of the reads that were due between from and to.
func (h *hitter) report(figures map[string]float64, name string, from, to time.Duration) {
	first, last := int(from/h.gap), min(int(to/h.gap), len(h.took))
	l := quantiles(append([]time.Duration(nil), h.took[first:last]...), to-from)
	figures[name+"-p50"], figures[name+"-p99"] = inMillis(l.p50), inMillis(l.p99)
}
