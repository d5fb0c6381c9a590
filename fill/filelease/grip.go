package filelease

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/swrproxy/swrproxy/fill"
)

// grip is this process's hold on one claim file: a fill.Grip.
type grip struct {
	files *files
	guard *guard
	path  string
	claim claim
	// displaced is the claim of another process that this one took the place of, its owner "" if there was none.
	displaced claim
	// under is the owner of the claim of this keeper that this one took the place of, "" if there was none.
	under string
	lost  func()
}

// Take implements fill.Remote.
func (f *files) Take(key fill.Key, newer bool, lost func()) (fill.Grip, uint64, error) {
	n := name(key)
	g := &grip{files: f, guard: f.guards[guardIndex(n)], path: filepath.Join(f.dir, n+claimExt), lost: lost}
	if err := g.guard.lock(); err != nil {
		return nil, 0, err
	}
	defer g.guard.unlock()
	if err := g.judge(newer); err != nil {
		return nil, 0, err
	}
	if err := g.write(key); err != nil {
		return nil, 0, fmt.Errorf("filelease: claim %s: %w", key, err)
	}
	f.keep(g)
	return g, g.claim.token, nil
}

// judge decides whether the claim may be taken. The guard is locked.
func (g *grip) judge(newer bool) error {
	there, found, err := readClaim(g.path)
	if err != nil {
		return fmt.Errorf("filelease: judge claim: %w", err)
	}
	if !found {
		return nil
	}
	// A claim of this very keeper has lapsed, or could not be removed: the table gives a key to one taker at a time.
	if !newer && !g.files.own(there) && fresh(there.checkin, time.Now().UnixNano(), g.files.stale) {
		return fmt.Errorf("%w: claim %s of process %s", fill.ErrBusy, g.path, there.process)
	}
	if g.files.own(there) {
		g.under = there.owner
	} else {
		g.displaced = there
	}
	return nil
}

// own tells whether a claim is of this keeper.
func (f *files) own(c claim) bool {
	instance, _, _ := strings.Cut(c.owner, ".")
	return instance == f.instance
}

// write draws a token and puts the claim in place, whole. The guard is locked.
func (g *grip) write(key fill.Key) error {
	last, err := g.guard.last()
	if err != nil {
		return err
	}
	g.files.sequence.Bump(last)
	token := g.files.sequence.Next()
	if err := g.guard.setLast(token); err != nil {
		return err
	}
	g.claim = claim{
		checkin: time.Now().UnixNano(), owner: g.files.ownerOf(token), token: token, process: g.files.process, key: key,
	}
	return place(g.path, g.claim.encode())
}

func (f *files) ownerOf(token uint64) string {
	return fmt.Sprintf("%s.%d", f.instance, token)
}

// place writes a claim beside its place and renames it there: nobody sees half of one. The guard is locked, so that the name beside is
// free; a crash may have left something there.
func place(path string, text []byte) error {
	temp := strings.TrimSuffix(path, claimExt) + tempExt
	if err := os.WriteFile(temp, text, 0o600); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return os.Rename(temp, path)
}

// readClaim reads a claim file. A half-written one is nobody's, and counts as checked in when it was last written.
func readClaim(path string) (c claim, found bool, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, false, nil
	}
	if err != nil {
		return c, false, err
	}
	if c, err = parseClaim(text); err == nil {
		return c, true, nil
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, false, nil
	}
	if err != nil {
		return c, false, err
	}
	return claim{checkin: info.ModTime().UnixNano(), process: "unknown"}, true, nil
}

// check returns fill.ErrLeaseLost if the claim is not owner's any more.
func check(path, owner string) error {
	c, found, err := readClaim(path)
	switch {
	case err != nil:
		return fmt.Errorf("filelease: check claim: %w", err)
	case !found:
		return fmt.Errorf("%w: claim %s is gone", fill.ErrLeaseLost, path)
	case c.owner != owner:
		return fmt.Errorf("%w: claim %s is of process %s, token %d", fill.ErrLeaseLost, path, c.process, c.token)
	}
	return nil
}

// ifOwn runs f with the guard locked if the claim is still this grip's.
func (g *grip) ifOwn(f func() error) error {
	if err := g.guard.lock(); err != nil {
		return err
	}
	defer g.guard.unlock()
	if err := check(g.path, g.claim.owner); err != nil {
		return err
	}
	return f()
}

// checkIn writes a check-in over the one in the file. It does not create files. The guard is locked.
func checkIn(path string, at int64) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteAt([]byte(checkinText(at)), int64(len(claimMagic)))
	return errors.Join(err, file.Close())
}

// Check implements fill.Grip. It does not lock the guard: claims are replaced whole.
func (g *grip) Check() error {
	return check(g.path, g.claim.owner)
}

// Retake implements fill.Grip.
func (g *grip) Retake() error {
	err := g.ifOwn(func() error { return checkIn(g.path, time.Now().UnixNano()) })
	if err == nil {
		g.files.keep(g)
	}
	return err
}

// Lapse implements fill.Grip.
func (g *grip) Lapse() error {
	g.files.drop(g)
	return g.ifOwn(func() error { return checkIn(g.path, 0) })
}

// Release implements fill.Grip.
func (g *grip) Release() error {
	g.files.drop(g)
	return g.ifOwn(func() error { return os.Remove(g.path) })
}

// Rollback implements fill.Grip.
func (g *grip) Rollback(undone []fill.Grip, old fill.Grip) error {
	back := g.below(undone, old)
	g.files.drop(g)
	return g.ifOwn(func() error {
		if back.owner == "" {
			return os.Remove(g.path)
		}
		return place(g.path, back.encode())
	})
}

// below returns the claim to put back, its owner "" for none. A claim of another process that was in the file between those of this one has
// robbed what lies below it.
func (g *grip) below(undone []fill.Grip, old fill.Grip) claim {
	top := g
	for _, u := range undone {
		if top.displaced.owner != "" {
			break
		}
		next, ok := u.(*grip)
		if !ok || next.claim.owner != top.under {
			return claim{}
		}
		top = next
	}
	if o, ok := old.(*grip); ok && o.claim.owner == top.under {
		back := o.claim
		back.checkin = 0 // until the table retakes it
		return back
	}
	return top.displaced
}

// Busy implements fill.Remote.
func (f *files) Busy(key fill.Key) bool {
	c, found, err := readClaim(f.path(key))
	return err == nil && found && !f.own(c) && fresh(c.checkin, time.Now().UnixNano(), f.stale)
}
