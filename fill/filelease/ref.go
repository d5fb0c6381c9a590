package filelease

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/swrproxy/swrproxy/fill"
)

// Ref names one lease's claim, so that another process, a child that does the work for example, can keep it fresh. It does not own the claim: nothing
// can be removed or taken with it. Immutable: it is a value, and may be passed on as two strings.
type Ref struct {
	// Path is the claim file, Owner the owner in it.
	Path, Owner string
}

// Ref returns the name of a lease's claim. The lease must be one of this keeper.
func (k *Keeper) Ref(l *fill.Lease) Ref {
	return Ref{Path: k.files.path(l.Key()), Owner: k.files.ownerOf(l.Token())}
}

// Touch checks the claim in for its owner. It returns fill.ErrLeaseLost if the claim is not that owner's any more, and then changes nothing.
func (r Ref) Touch() error {
	n := strings.TrimSuffix(filepath.Base(r.Path), claimExt)
	if len(n) != 32 {
		return fmt.Errorf("filelease: %s: %w", r.Path, errNotClaim)
	}
	file, err := os.OpenFile(filepath.Join(filepath.Dir(r.Path), guardName(n)), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("filelease: open guard: %w", err)
	}
	g := newGuard(file)
	defer g.close()
	if err := g.lock(); err != nil {
		return err
	}
	defer g.unlock()
	if err := check(r.Path, r.Owner); err != nil {
		return err
	}
	return checkIn(r.Path, time.Now().UnixNano())
}

// Age gives up the freshness of a lease's claim on purpose: the next taker of another process takes it at once. The lease stays in office in this
// process until its tenure ends, and may commit until somebody took the claim. Age returns fill.ErrLeaseLost if that has happened or the lease is over.
func (k *Keeper) Age(l *fill.Lease) error {
	owner := k.files.ownerOf(l.Token())
	for _, g := range k.files.kept() {
		if g.claim.owner == owner {
			return g.Lapse()
		}
	}
	return fmt.Errorf("%w: no claim of token %d in office", fill.ErrLeaseLost, l.Token())
}
