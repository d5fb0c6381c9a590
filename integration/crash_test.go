package integration

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Promise: a process that is killed in the middle of its writes starts again by itself and serves no damaged byte.

const (
	// crashRounds is how often the process is killed.
	crashRounds = 3
	// crashLoad is how long it writes before; a second of writes may be lost.
	crashLoad = 1500 * time.Millisecond
	// crashWriters is how many clients cause the writes.
	crashWriters = 6
)

// sizedBody is a sealed body whose length depends on the path: from a few bytes to some MiB, so that every way of storing is used.
func sizedBody(path string) string {
	var n uint64
	_, _ = fmt.Sscanf(path, "/crash/%d", &n)
	sizes := []int{10, 1000, 60 << 10, 70 << 10, 1 << 20, 3 << 20}
	size := sizes[rand.New(rand.NewPCG(n, 1)).IntN(len(sizes))]
	return sealText("body of " + path + "\n" + strings.Repeat("x", size))
}

func TestBodiesAreRightAfterAKill(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).onAny(func(w http.ResponseWriter, r *http.Request, n int) {
		answer(http.StatusOK, sizedBody(r.URL.Path), "Cache-Control: max-age=3600")(w, r, n)
	})
	c := conf{Origin: o.url, Extra: "disk: { path: " + t.TempDir() + "/store, max: 1GiB }\n"}
	var next atomic.Int64
	for round := range crashRounds {
		p := start(t, c)
		p.mayFail = true
		hits := verifyRecords(t, p, int(next.Load()))
		if round > 0 && hits == 0 {
			t.Errorf("round %d: nothing survived", round)
		}
		fillUntilKilled(t, p, &next)
	}
	p := start(t, c)
	t.Logf("%d records written over %d kills, %d of them found after the last", next.Load(), crashRounds, verifyRecords(t, p, int(next.Load())))
}

// fillUntilKilled lets clients ask for ever new paths and kills the proxy under them.
func fillUntilKilled(t *testing.T, p *proxy, next *atomic.Int64) {
	t.Helper()
	killed := make(chan struct{})
	var done sync.WaitGroup
	for range crashWriters {
		c := dial(t, p.Addr())
		done.Go(func() {
			for {
				select {
				case <-killed:
					return
				default:
				}
				if r := c.send(request("GET", fmt.Sprintf("/crash/%d", next.Add(1)-1))); r.Err != nil || r.BodyErr != nil {
					return // the kill
				}
			}
		})
	}
	time.Sleep(crashLoad)
	p.Kill()
	close(killed)
	done.Wait()
}

// verifyRecords reads the first n paths, or a sample of them, checks every body and returns how many came from the store.
func verifyRecords(t *testing.T, p *proxy, n int) int {
	t.Helper()
	c := dial(t, p.Addr())
	hits := 0
	for i := 0; i < n; i += max(1, n/300) {
		path := fmt.Sprintf("/crash/%d", i)
		r := c.send(request("GET", path))
		r.want(t, http.StatusOK, sizedBody(path))
		if r.hit() {
			hits++
		}
	}
	return hits
}
