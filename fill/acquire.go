package fill

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrWaitOver is returned by Acquire when its limit passed.
var ErrWaitOver = errors.New("fill: wait over")

// Joiner is the part of a keeper that Acquire needs.
type Joiner interface {
	Join(key Key) (*Lease, *Waiter, error)
}

// Acquire takes key, and waits for its holders as often as need be. It is for callers who want the key itself, whatever became of the fill that they waited
// for; readers use Join. If limit passes, the error wraps ErrWaitOver and names the key; 0 and less mean no limit. If ctx ends, its error is
// returned; a key that was won in that very moment is given back.
func Acquire(ctx context.Context, k Joiner, key Key, limit time.Duration) (*Lease, error) {
	began := time.Now()
	for {
		l, w, err := k.Join(key)
		if err != nil {
			return nil, err
		}
		if l != nil {
			return keepUnless(ctx, l)
		}
		if err := waitTurn(ctx, w, key, limit, began); err != nil {
			return nil, err
		}
	}
}

// keepUnless gives l back if ctx has ended.
func keepUnless(ctx context.Context, l *Lease) (*Lease, error) {
	if err := ctx.Err(); err != nil {
		l.Settle(Outcome{Kind: Abandoned, Err: err})
		return nil, err
	}
	return l, nil
}

// waitTurn waits for one wake-up after which the key may be free.
func waitTurn(ctx context.Context, w *Waiter, key Key, limit time.Duration, began time.Time) error {
	defer w.Cancel()
	for {
		left := time.Duration(0)
		if limit > 0 {
			left = max(limit-time.Since(began), 1)
		}
		out, err := w.Wait(ctx, left)
		switch {
		case err != nil:
			return err
		case out.Kind == WaitOver:
			return fmt.Errorf("%w: %s was held for all of %v", ErrWaitOver, key, limit)
		case out.Kind != Announced:
			return nil
		}
	}
}
