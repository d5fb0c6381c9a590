package filltest

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/swrproxy/swrproxy/fill"
)

// raceRounds is how often two takers race for one free place.
const raceRounds = 20_000

// race lets two takers race for one free place, over and over: one and only one of them gets a lease, that lease is whole from the first
// moment, and the gauges are the truth after every round.
func race(t *testing.T, a, b Keeper) {
	rounds := raceRounds
	if testing.Short() {
		rounds /= 20
	}
	key := fill.Key{Space: "race", ID: "place"}
	leases := make([]*fill.Lease, 2)
	var last uint64
	for n := range rounds {
		takeBoth(t, [2]Keeper{a, b}, key, leases)
		if t.Failed() {
			t.Fatalf("round %d of %d", n, rounds)
		}
		last = checkRound(t, a, b, leases, last)
	}
}

func takeBoth(t *testing.T, keepers [2]Keeper, key fill.Key, leases []*fill.Lease) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i, k := range keepers {
		wg.Go(func() {
			<-start
			l, err := k.TryAcquire(key)
			leases[i] = l
			switch {
			case l == nil && !errors.Is(err, fill.ErrBusy):
				t.Errorf("refused: %v, want ErrBusy", err)
			case l != nil && (err != nil || l.Key() != key || l.Token() == 0 || l.CheckCommit() != nil || l.Context().Err() != nil):
				t.Errorf("a lease that is not whole: %v, token %d, error %v", l.Key(), l.Token(), err)
			}
		})
	}
	close(start)
	wg.Wait()
}

// checkRound checks one round's winner and settles it.
func checkRound(t *testing.T, a, b Keeper, leases []*fill.Lease, last uint64) (token uint64) {
	won := leases[0]
	if won == nil {
		won = leases[1]
	}
	if won == nil || (leases[0] != nil && leases[1] != nil) {
		t.Fatalf("leases: %v, want one", leases)
	}
	heldBy(t, a, b, 1)
	if won.Token() <= last {
		t.Errorf("token %d after %d", won.Token(), last)
	}
	settle(t, won, fill.Stored)
	heldBy(t, a, b, 0)
	synctest.Wait()
	return won.Token()
}

// heldBy wants so many leases held in both keepers together.
func heldBy(t *testing.T, a, b Keeper, want int) {
	t.Helper()
	sa, sb := a.Stats(), b.Stats()
	held, queued, waiting := sa.Held, sa.Queued, sa.Waiting
	if a != b {
		held, queued, waiting = held+sb.Held, queued+sb.Queued, waiting+sb.Waiting
	}
	if held != want || queued != 0 || waiting != 0 {
		t.Errorf("%d held, %d queued, %d waiting; want %d, 0, 0", held, queued, waiting, want)
	}
}
