package app

import (
	"context"
	"errors"

	"github.com/rs/zerolog"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/memory"
	"github.com/swrproxy/swrproxy/fill"
	"github.com/swrproxy/swrproxy/internal/config"
)

// openStore makes the tiers.
func openStore(cfg *config.Config, _ zerolog.Logger) (cache.Store, error) {
	if cfg.Disk.Path != "" {
		return nil, errors.New("disk: this version keeps records in memory only; remove disk.path")
	}
	store, err := memory.New(memory.Options{Max: int64(cfg.Memory.Max)})
	if err != nil {
		return nil, err // not as a Store: a nil *memory.Store would not be nil
	}
	return store, nil
}

func closeNow(s cache.Store) error { return s.Close(context.Background()) }

// openKeeper makes what grants keys; nil and nil leave it to the cache.
func openKeeper(f config.Fill) (cache.Keeper, *fill.Sequence, error) {
	if f.Keeper == config.KeeperFile {
		return nil, nil, errors.New("fill.keeper: this version grants keys within one process only; write keeper: memory")
	}
	return nil, nil, nil
}
