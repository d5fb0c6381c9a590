package app

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/rs/zerolog"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/disk"
	"github.com/swrproxy/swrproxy/cache/memory"
	"github.com/swrproxy/swrproxy/cache/tiered"
	"github.com/swrproxy/swrproxy/internal/config"
)

// tiers is the store with what is to be known of its parts.
type tiers struct {
	cache.Store
	// counted are the parts by the name of their tier.
	counted map[string]cache.StatsSource
	disk    *disk.Store // nil without a disk tier
	// diskLost means that there should be a disk tier, but it was full or failing at the start.
	diskLost bool
}

// openTiers makes the memory tier and, if there is a path, the disk tier behind it.
func openTiers(cfg *config.Config, log zerolog.Logger) (*tiers, error) {
	mem, err := memory.New(memory.Options{Max: int64(cfg.Memory.Max)})
	if err != nil {
		return nil, err
	}
	t := &tiers{Store: mem, counted: map[string]cache.StatsSource{"memory": mem}}
	if cfg.Disk.Path == "" {
		return t, nil
	}
	t.disk, err = disk.Open(disk.Options{Path: cfg.Disk.Path, Max: int64(cfg.Disk.Max), Notify: diskEvents(log, cfg.Disk.Path)})
	if diskIsFull(err) {
		log.Warn().Err(err).Str("path", cfg.Disk.Path).Msg("disk tier can not be opened; memory only until the next start")
		t.disk, t.diskLost = nil, true
		return t, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open disk.path: %w", errors.Join(err, closeNow(mem)))
	}
	t.Store = tiered.New(mem, t.disk)
	t.counted["disk"] = t.disk
	return t, nil
}

// diskIsFull tells of failures that are the disk's and may pass; what a person has to mend stops the start.
func diskIsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EIO)
}

// lastToken is the highest token of the records that were there already; 0 without a disk tier.
func (t *tiers) lastToken() uint64 {
	if t.disk == nil {
		return 0
	}
	return t.disk.MaxToken()
}

// diskEvents logs what the disk tier has to say.
func diskEvents(log zerolog.Logger, path string) func(disk.Event) {
	return func(ev disk.Event) {
		level := zerolog.WarnLevel
		switch ev.Kind {
		case disk.EventRecovered, disk.EventOrphans, disk.EventUpgraded:
			level = zerolog.InfoLevel
		}
		line := log.WithLevel(level).Str("event", ev.Kind.String()).Str("path", path).AnErr("error", ev.Err)
		if ev.Mend != "" {
			line.Str("mend", ev.Mend)
		}
		line.Msg(ev.Text)
	}
}
