package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/fill"
	"github.com/swrproxy/swrproxy/fill/filelease"
	"github.com/swrproxy/swrproxy/internal/config"
)

// openKeeper makes what grants keys, and the sequence that numbers fills. Its numbers are above last, those of the records that are there
// already, and begin at the clock, so that they grow from one process to the next.
func openKeeper(f config.Fill, last uint64, obs cache.Observer) (cache.Keeper, *fill.Sequence, error) {
	seq := fill.NewSequence(max(last, uint64(time.Now().UnixNano())))
	if f.Keeper != config.KeeperFile {
		return fill.New(fill.Options{Tenure: span(f.Tenure), Sequence: seq}), seq, nil
	}
	k, err := filelease.Open(filelease.Options{
		Dir: f.Path, Tenure: span(f.Tenure), Stale: span(f.Stale), Sequence: seq,
		Report: func(key fill.Key, err error) {
			obs.Noted(&cache.Note{Kind: cache.NoteKeeper, Key: key.ID, Text: "a claim failed or was lost", Err: err})
		},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("open fill.path %s: %w", f.Path, err)
	}
	return k, seq, nil
}

// closer is a store or a keeper.
type closer interface {
	Close(context.Context) error
}

// closeNow closes what nobody uses yet.
func closeNow(parts ...closer) error {
	var errs []error
	for _, p := range parts {
		errs = append(errs, p.Close(context.Background()))
	}
	return errors.Join(errs...)
}
