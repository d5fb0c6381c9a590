package harness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"
)

// Section is what a caller does in the critical section.
type Section string

// The kinds of critical section.
const (
	Timer Section = "timer" // sleeps, so that others run
	Yield Section = "yield" // gives way once
	Spin  Section = "spin"  // keeps its processor
)

// Sections are all of them.
var Sections = []Section{Timer, Yield, Spin}

func (s Section) work() {
	switch s {
	case Timer:
		time.Sleep(50 * time.Microsecond)
	case Yield:
		runtime.Gosched()
	case Spin:
		for began := time.Now(); time.Since(began) < 20*time.Microsecond; {
		}
	}
}

// Rounds is how often each caller takes the key.
const Rounds = 150

// loadLimit is when a caller that got nothing counts as starved.
const loadLimit = 30 * time.Second

// Load is one row of the harness: so many workers with so many callers each, who all want one key.
type Load struct {
	Workers, Callers int
	Section          Section
}

// Row is what came of a load.
type Row struct {
	Keeper Keeper
	Load
	// Most is how many callers were in the section at once at most; Lost updates of a counter kept in it; Strays releases that counted by callers who did not hold.
	// Right is 1, 0, 0.
	Most, Lost, Strays uint64
	// Acquired is how often the key was taken, of Wanted; Attempts how many tries that took.
	Acquired, Wanted, Attempts uint64
	// Longest is the longest wait of any caller.
	Longest time.Duration
}

// Broken says which promise was not kept, "" if all were.
func (r Row) Broken() string {
	switch {
	case r.Most != 1:
		return fmt.Sprintf("%d holders at once", r.Most)
	case r.Lost != 0:
		return fmt.Sprintf("%d updates lost", r.Lost)
	case r.Strays != 0:
		return fmt.Sprintf("%d releases by callers who did not hold", r.Strays)
	case r.Acquired != r.Wanted:
		return fmt.Sprintf("%d of %d acquisitions: somebody starved", r.Acquired, r.Wanted)
	}
	return ""
}

// Contend runs a load on a keeper.
func Contend(k Keeper, l Load) (Row, error) {
	b, err := k.run(job{kind: jobContend, workers: l.Workers, callers: l.Callers, section: l.Section})
	if err != nil {
		return Row{}, fmt.Errorf("%s, %d workers of %d callers, %s: %w", k, l.Workers, l.Callers, l.Section, err)
	}
	defer b.unmap()
	done := b.word(wordDone).Load()
	return Row{
		Keeper: k, Load: l,
		Most: b.word(wordMost).Load(), Lost: done - b.word(wordCounter).Load(), Strays: b.word(wordStrays).Load(),
		Acquired: done, Wanted: uint64(l.Workers * l.Callers * Rounds), Attempts: b.word(wordAttempts).Load(),
		Longest: time.Duration(b.word(wordLongest).Load()),
	}, nil
}

// contend is one worker's part.
func contend(b *Board, lk lock, j job, worker int) error {
	errs := make([]error, j.callers)
	b.arrive(wordReady, uint64(j.workers))
	var wg sync.WaitGroup
	for c := range j.callers {
		wg.Go(func() { errs[c] = call(b, lk, j.section, uint64(worker*j.callers+c+1)) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// call is one caller: me is its number, from 1.
func call(b *Board, lk lock, s Section, me uint64) error {
	ctx, cancel := context.WithTimeout(context.Background(), loadLimit)
	defer cancel()
	r := rand.New(rand.NewPCG(me, uint64(len(s))))
	for range Rounds {
		began := time.Now()
		release, attempts, err := lk.acquire(ctx, "contended")
		if err != nil {
			return fmt.Errorf("caller %d: %w", me, err)
		}
		b.raise(wordLongest, uint64(time.Since(began)))
		b.word(wordAttempts).Add(uint64(attempts))
		b.critical(s, me)
		b.releases(release, me)
		time.Sleep(time.Duration(r.IntN(100)) * time.Microsecond)
	}
	return nil
}

// critical is what only one caller may be in.
func (b *Board) critical(s Section, me uint64) {
	b.raise(wordMost, b.word(wordInside).Add(1))
	b.word(wordOwner).Store(me)
	seen := b.word(wordCounter).Load()
	s.work()
	b.word(wordCounter).Store(seen + 1)
	b.word(wordInside).Add(^uint64(0))
	b.word(wordDone).Add(1)
}

// releases releases twice, as careless owners do. The second must not count, and the first only if nobody else has entered.
func (b *Board) releases(release func() bool, me uint64) {
	mine := b.word(wordOwner).Load() == me
	if release() && !mine {
		b.word(wordStrays).Add(1)
	}
	runtime.Gosched()
	if release() {
		b.word(wordStrays).Add(1)
	}
}
