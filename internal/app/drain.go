package app

import (
	"context"
	"errors"
	"time"

	"github.com/swrproxy/swrproxy/internal/server"
)

// Bounds of what comes after the requests have ended.
const (
	// fillGrace is how long background fills may go on after the last request: nobody waits for them, yet what they fetch is worth
	// keeping where a disk tier is.
	fillGrace = 2 * time.Second
	// closeGrace is how long stores, origins and the admin listener may take to close.
	closeGrace = 5 * time.Second
)

// Drain ends the proxy: not ready, no more connections, requests under way finish or are cut at http.drain, fills finish or are
// cancelled, and everything closes. When ctx ends first requests and fills are cut at once and ErrCut is returned; what waits to be
// written to disk still is, within seconds.
func (a *App) Drain(ctx context.Context) error {
	a.state.Store(uint32(draining))
	a.logger.Info().Msg("draining")
	begin := time.Now()
	cut, requests := a.drainServer(ctx)
	fills := a.closeCache(ctx, cut)
	a.closeRest(ctx)
	if a.trimmer != nil {
		a.trimmer.close()
		a.pacer.close()
	}
	a.logger.Info().Dur("took_ms", time.Since(begin)).Msg("stopped")
	_ = a.lines.Close() // there is nobody left to tell
	if context.Cause(ctx) != nil {
		return errors.Join(ErrCut, requests, fills)
	}
	return errors.Join(requests, fills)
}

// drainServer tells whether requests had to be cut. At the configured limit that is what was asked for, and no error.
func (a *App) drainServer(ctx context.Context) (cut bool, err error) {
	err = a.server.Drain(ctx)
	if e, ok := errors.AsType[*server.ErrCut](err); ok {
		a.logger.Warn().Err(e).Msg("requests cut at http.drain")
		return true, nil
	}
	return false, err
}

// closeCache lets fills finish for a moment, unless requests had to be cut: then all the time is used up. That some had to be cancelled is no failure.
func (a *App) closeCache(ctx context.Context, cut bool) error {
	grace, cancel := context.WithTimeout(ctx, fillGrace)
	defer cancel()
	if cut {
		cancel()
	}
	err := a.cache.Close(grace)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		a.logger.Info().Err(err).Msg("fills cancelled")
		return nil
	}
	return err
}

// closeRest closes what nobody is served by any more. The admin listener goes last, so that the drain can be watched.
func (a *App) closeRest(ctx context.Context) {
	grace, cancel := context.WithTimeout(ctx, closeGrace)
	defer cancel()
	if err := a.pools.close(grace); err != nil {
		a.logger.Info().Err(err).Msg("origin connections cut")
	}
	if a.admin != nil {
		if err := a.admin.Close(grace); err != nil {
			a.logger.Info().Err(err).Msg("admin requests cut")
		}
	}
}

// abandon closes what New or Start had made before they failed.
func (a *App) abandon() {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	if a.cache != nil {
		_ = a.cache.Close(now) // the first failure is the one to report
	}
	_ = a.pools.close(now)
	if a.lines != nil {
		_ = a.lines.Close()
	}
}
