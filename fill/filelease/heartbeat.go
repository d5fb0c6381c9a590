package filelease

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/swrproxy/swrproxy/fill"
)

// keep makes the heartbeat check g in, drop ends that.
func (f *files) keep(g *grip) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.grips[g] = struct{}{}
}

func (f *files) drop(g *grip) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.grips, g)
}

func (f *files) keeps(g *grip) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.grips[g]
	return ok
}

func (f *files) kept() []*grip {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]*grip, 0, len(f.grips))
	for g := range f.grips {
		list = append(list, g)
	}
	return list
}

// beat checks all claims in from time to time, until the keeper closes. It is the keeper's goroutine.
func (f *files) beat() {
	defer close(f.done)
	tick := time.NewTicker(f.heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-f.stop:
			return
		case <-tick.C:
		}
		f.beatOnce()
	}
}

func (f *files) beatOnce() {
	for _, g := range f.kept() {
		select {
		case <-f.stop:
			return
		default:
			g.touch()
		}
	}
}

// touch checks one claim in. A claim that was dropped since the heartbeat looked is left alone, so that a touch during a release or a lapse undoes
// neither.
func (g *grip) touch() {
	err := g.ifOwn(func() error {
		if !g.files.keeps(g) {
			return nil
		}
		return checkIn(g.path, time.Now().UnixNano())
	})
	if err == nil || !g.files.keeps(g) {
		return
	}
	if errors.Is(err, fill.ErrLeaseLost) {
		g.files.drop(g)
		g.lost()
	}
	g.files.report(g.claim.key, err)
}

// sweep removes claims that are stale, which crashed processes left, and what was being written when they crashed.
func (f *files) sweep() error {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return fmt.Errorf("filelease: sweep: %w", err)
	}
	var errs []error
	for _, e := range entries {
		n := strings.TrimSuffix(strings.TrimSuffix(e.Name(), claimExt), tempExt)
		if len(n) == 32 && n != e.Name() {
			errs = append(errs, f.sweepOne(n))
		}
	}
	return errors.Join(errs...)
}

func (f *files) sweepOne(n string) error {
	g := f.guards[guardIndex(n)]
	if g.lock() != nil {
		return nil // somebody is busy there; the next taker judges the claim
	}
	defer g.unlock()
	path := filepath.Join(f.dir, n+claimExt)
	_ = os.Remove(filepath.Join(f.dir, n+tempExt))
	c, found, err := readClaim(path)
	if err != nil || !found || fresh(c.checkin, time.Now().UnixNano(), f.stale) {
		return err
	}
	return os.Remove(path)
}
