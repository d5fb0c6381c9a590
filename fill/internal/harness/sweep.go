package harness

import (
	"fmt"
	"math/rand/v2"
	"strconv"
)

// The sweep: workers who all try to claim all keys that are due.
const (
	sweepKeys    = 800
	sweepRounds  = 10
	sweepWorkers = 8
)

// SweepRow is what came of a sweep.
type SweepRow struct {
	Keeper Keeper
	// Due is how many claims were to be granted in all rounds, Granted how many were; Twice grants of a key that another worker had already; Refused keys
	// that nobody got.
	Due, Granted, Twice, Refused uint64
}

// Broken says which promise was not kept, "" if all were.
func (r SweepRow) Broken() string {
	if r.Granted != r.Due || r.Twice != 0 || r.Refused != 0 {
		return fmt.Sprintf("%d of %d granted, %d twice, %d refused", r.Granted, r.Due, r.Twice, r.Refused)
	}
	return ""
}

// Sweep lets 8 workers claim 800 due keys, 10 times.
func Sweep(k Keeper) (SweepRow, error) {
	b, err := k.run(job{kind: jobSweep, workers: sweepWorkers, callers: 1})
	if err != nil {
		return SweepRow{}, fmt.Errorf("sweep on %s: %w", k, err)
	}
	defer b.unmap()
	return SweepRow{
		Keeper: k, Due: sweepKeys * sweepRounds, Granted: b.word(wordGranted).Load(),
		Twice: b.word(wordTwice).Load(), Refused: b.word(wordRefused).Load(),
	}, nil
}

// sweep is one worker's part. Claims are kept until all workers have tried all keys.
func sweep(b *Board, lk lock, j job, worker int) error {
	barrier := uint64(0)
	arrive := func() {
		barrier += uint64(j.workers)
		b.arrive(wordArrived, barrier)
	}
	r := rand.New(rand.NewPCG(uint64(worker), sweepKeys))
	for range sweepRounds {
		arrive()
		claims := claimAll(b, lk, r.Perm(sweepKeys))
		arrive()
		if worker == 0 {
			b.count()
		}
		arrive()
		for _, release := range claims {
			release()
		}
	}
	return nil
}

func claimAll(b *Board, lk lock, order []int) (claims []func() bool) {
	for _, i := range order {
		if release, ok := lk.try("due " + strconv.Itoa(i)); ok {
			claims = append(claims, release)
			b.word(wordKeys + i).Add(1)
		}
	}
	return claims
}

// count adds one round up.
func (b *Board) count() {
	for i := range sweepKeys {
		n := b.word(wordKeys + i).Swap(0)
		b.word(wordGranted).Add(n)
		if n == 0 {
			b.word(wordRefused).Add(1)
		} else {
			b.word(wordTwice).Add(n - 1)
		}
	}
}
