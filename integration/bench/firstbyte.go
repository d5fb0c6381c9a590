package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// direct is an origin itself, asked without a proxy. It runs on the servers' core, so that a request to it crosses from core to core as
// one to a proxy does: between two processes on one core an answer comes in a tenth of the time.
const direct = "origin, directly"

// firstBytes asks for one new path after the other on one connection, for as long as d, and tells how long the first bytes took.
func (b *bench) firstBytes(ctx context.Context, s scenario, sub subject, d time.Duration) (l load, err error) {
	b.runs++
	prefix := fmt.Sprintf("%s%d/", s.path, b.runs)
	err = onCore(b.o.loadCore, func() error {
		c, err := dial(sub.server.plain)
		if err != nil {
			return err
		}
		defer c.close()
		var spans []time.Duration
		began := time.Now()
		for n := 0; time.Since(began) < d && ctx.Err() == nil; n++ {
			a, err := c.get(fmt.Sprint(prefix, n))
			if err != nil {
				return err
			}
			spans = append(spans, a.first.Sub(a.sent))
		}
		l = quantiles(spans, time.Since(began))
		return context.Cause(ctx)
	})
	return l, err
}

// quantiles is the load that spans are the latencies of.
func quantiles(spans []time.Duration, took time.Duration) load {
	l := load{requests: int64(len(spans)), rate: float64(len(spans)) / took.Seconds()}
	if len(spans) == 0 {
		return l
	}
	slices.Sort(spans)
	at := func(share float64) time.Duration { return spans[min(int(share*float64(len(spans))), len(spans)-1)] }
	l.p50, l.p99, l.p999 = at(0.5), at(0.99), at(0.999)
	return l
}
