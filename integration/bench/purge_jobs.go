package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/swrproxy/swrproxy/cache"
)

const million = 1_000_000

// The cores of measurements in which there are hits: hits have one, all else the other.
const (
	hitsCore = 1
	restCore = 0
)

// single times purges of one URL and of one tag, one after the other, among n records.
func (w *workshop) single(ctx context.Context, n int) error {
	if err := w.open(ctx, n, true); err != nil {
		return err
	}
	const most, longest = 200, 5 * time.Second
	chance := rand.New(rand.NewPCG(1, uint64(n)))
	pages := chance.Perm(n / 2) // the tags are those of the other half
	urls, err := w.timed(ctx, most, longest, 1, func(i int) cache.Selector { return cache.Selector{URL: pageURL(pages[i])} })
	if err != nil {
		return err
	}
	tags := chance.Perm(n / perTag / 2)
	byTag, err := w.timed(ctx, min(most/4, len(tags)), longest, perTag, func(i int) cache.Selector { return cache.Selector{Tags: []string{tagOf(n/2 + tags[i]*perTag)}} })
	w.figures[fmt.Sprintf("url-%d", n)] = inMillis(median(urls))
	w.figures[fmt.Sprintf("url-most-%d", n)] = inMillis(slices.Max(urls))
	w.figures[fmt.Sprintf("tag-%d", n)] = inMillis(median(byTag))
	return err
}

// timed makes purges until there are most, or three at least and longest is over. Each must reach as many records as reach.
func (w *workshop) timed(ctx context.Context, most int, longest time.Duration, reach int, selector func(i int) cache.Selector) ([]time.Duration, error) {
	var took []time.Duration
	began := time.Now()
	for i := 0; i < most && (i < 3 || time.Since(began) < longest); i++ {
		start := time.Now()
		res, err := w.c.Purge(ctx, selector(i), cache.PurgeOptions{})
		took = append(took, time.Since(start))
		if err == nil && res.Records != reach {
			err = fmt.Errorf("%+v reached %d records, not %d", selector(i), res.Records, reach)
		}
		if err != nil {
			return took, err
		}
	}
	return took, nil
}

const (
	crowdSize = 100_000 // records of the measurements with hits
	hitsRate  = 20_000
	readsRate = 10_000
	// before is how long hits are taken with nothing beside.
	beforeFor = 5 * time.Second
	// streamFor is how long purges come, streamRate how many a second.
	streamFor  = 10 * time.Second
	streamRate = 1000
	// waitFor is how long purges are waited for.
	waitFor = 5 * time.Second
)

// stream purges one URL after the other at a steady rate, beside hits on other keys.
func (w *workshop) stream(ctx context.Context) error {
	if err := w.open(ctx, crowdSize, true); err != nil {
		return err
	}
	const purged = int(streamFor/time.Second) * streamRate
	h := w.newHitter(hitsRate, beforeFor+streamFor, func() int { return purged + rand.IntN(crowdSize-purged) })
	var answered []time.Duration
	err := h.beside(restCore, func(began time.Time) (err error) {
		time.Sleep(beforeFor)
		answered, err = w.purgeStream(ctx, began.Add(beforeFor), purged)
		return err
	})
	h.report(w.figures, "stream-before", 0, beforeFor)
	h.report(w.figures, "stream-during", beforeFor, beforeFor+streamFor)
	slices.Sort(answered)
	w.figures["stream-unanswered"] = 1 - float64(len(answered))/float64(purged)
	if n := len(answered); n > 0 {
		w.figures["stream-purge-p50"], w.figures["stream-purge-p99"] = inMillis(answered[n/2]), inMillis(answered[n*99/100])
	}
	return err
}

// purgeStream asks for n purges, each at its time whatever became of those before it, and returns how long those took that were answered in time.
func (w *workshop) purgeStream(ctx context.Context, began time.Time, n int) ([]time.Duration, error) {
	ctx, cancel := context.WithDeadline(ctx, began.Add(streamFor+waitFor))
	defer cancel()
	type answer struct {
		took time.Duration
		err  error
	}
	answers := make(chan answer, n)
	for i := range n {
		due := began.Add(time.Duration(i) * time.Second / streamRate)
		time.Sleep(time.Until(due))
		go func() {
			_, err := w.c.Purge(ctx, cache.Selector{URL: pageURL(i)}, cache.PurgeOptions{})
			answers <- answer{time.Since(due), err}
		}()
	}
	var took []time.Duration
	for range n {
		switch a := <-answers; {
		case a.err == nil:
			took = append(took, a.took)
		case !errors.Is(a.err, context.DeadlineExceeded):
			return took, a.err
		}
	}
	return took, nil
}

// soft purges all records by their tag beside reads of them.
func (w *workshop) soft(ctx context.Context) error {
	w.oneTag = true
	if err := w.open(ctx, crowdSize, true); err != nil {
		return err
	}
	w.origin.delay.Store(int64(crowdDelay))
	h := w.newHitter(readsRate, beforeFor+waitFor, func() int { return rand.IntN(crowdSize) })
	h.ordinary = true
	took := waitFor
	err := h.beside(restCore, func(began time.Time) error {
		time.Sleep(beforeFor)
		limited, cancel := context.WithDeadline(ctx, began.Add(beforeFor+waitFor))
		defer cancel()
		res, err := w.c.Purge(limited, cache.Selector{Tags: []string{tagOf(0)}}, cache.PurgeOptions{Soft: true})
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return nil
		case err == nil && res.Records < crowdSize/2: // some are refreshed before the purge comes to them
			err = fmt.Errorf("%d records reached, of %d", res.Records, crowdSize)
		}
		took = time.Since(began.Add(beforeFor))
		return err
	})
	w.figures["soft-took"] = inMillis(took)
	h.report(w.figures, "soft-before", 0, beforeFor)
	h.report(w.figures, "soft-until", beforeFor, beforeFor+took)
	h.report(w.figures, "soft-during", beforeFor, beforeFor+waitFor)
	return err
}

// index tells the live heap for each of a million small records, which say the same in either case, but with tags or without.
func (w *workshop) index(ctx context.Context, tags bool) error {
	before := liveHeap()
	if err := w.open(ctx, million, tags); err != nil {
		return err
	}
	name := "heap-none"
	if tags {
		name = "heap-tag"
	}
	w.figures[name] = float64(liveHeap()-before) / million
	runtime.KeepAlive(w)
	return nil
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func inMillis(d time.Duration) float64 { return float64(d) / 1e6 }
