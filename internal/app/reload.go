package app

import (
	"errors"

	"github.com/rs/zerolog"

	"github.com/swrproxy/swrproxy/internal/config"
)

// live are the sections that Reload can change. The rest waits for the next start.
var live = []string{"rules", "origins", "trusted_proxies", "purge", "log.level"}

// Reload reads the settings again and puts rules, origins, log level and certificates into use. A mistake anywhere keeps everything as
// it was. What came of it is logged and returned.
func (a *App) Reload() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.reloadLocked(); err != nil {
		a.logProblems(err)
		return err
	}
	a.logger.Info().Strs("rules", ruleNames(a.cfg)).Msg("settings reloaded")
	return nil
}

func (a *App) reloadLocked() error {
	next := a.cfg
	if a.o.Load != nil {
		loaded, err := a.o.Load()
		if err != nil {
			return err
		}
		next = loaded
	}
	if err := a.use(next); err != nil {
		return err
	}
	setLevel(next)
	a.tellRestart(next)
	a.cfg = withLive(a.cfg, next)
	return nil
}

// use replaces origins, certificates and rules: first everything that can fail is made, then put into use. The old origins finish
// what they are doing.
func (a *App) use(next *config.Config) error {
	before := a.pools.current()
	set, err := newPoolSet(next, before)
	if err != nil {
		return err
	}
	if err := a.server.ReloadCertificates(); err != nil {
		return errors.Join(err, set.without(before).closeNow())
	}
	if err := a.cache.SetRules(cacheRules(next, set)); err != nil {
		return errors.Join(err, set.without(before).closeNow())
	}
	a.telemetry.SetRules(ruleNames(next))
	a.trusted.Store(&next.TrustedProxies)
	a.purgers.Store(&next.Purge.Allow)
	a.pools.swap(set)
	a.pools.retire(before.without(set))
	return nil
}

// tellRestart names what was changed in the file and not in the process.
func (a *App) tellRestart(next *config.Config) {
	var waiting []string
	for _, key := range a.cfg.Changes(next) {
		if !config.Under(key, live...) {
			waiting = append(waiting, key)
		}
	}
	if len(waiting) > 0 {
		a.logger.Warn().Strs("keys", waiting).Msg("changed settings that need a restart")
	}
	for _, w := range next.Warnings() {
		a.logger.Warn().Str("at", w.Path).Str("mend", w.Mend).Msg(w.What)
	}
}

// withLive returns the settings now in force: next's where they were put into use, the old ones elsewhere.
func withLive(old, next *config.Config) *config.Config {
	c := *old
	c.Rules, c.Origins, c.TrustedProxies, c.Log.Level = next.Rules, next.Origins, next.TrustedProxies, next.Log.Level
	c.Purge = next.Purge
	return &c
}

// logProblems writes one line per mistake.
func (a *App) logProblems(err error) {
	problems, ok := errors.AsType[*config.Error](err)
	if !ok {
		a.logger.Error().Err(err).Msg("settings not reloaded, the old ones stay")
		return
	}
	for _, p := range problems.Problems {
		a.logger.Error().Str("file", p.File).Int("line", p.Line).Int("column", p.Column).Str("at", p.Path).
			Str("error", p.What).Str("mend", p.Mend).Msg("settings not reloaded, the old ones stay")
	}
}

// setLevel sets the process's log level.
func setLevel(cfg *config.Config) {
	level, err := zerolog.ParseLevel(string(cfg.Log.Level))
	if err != nil {
		level = zerolog.InfoLevel
	}
	zerolog.SetGlobalLevel(level)
}
