package app

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/internal/admin"
	"github.com/swrproxy/swrproxy/internal/config"
	"github.com/swrproxy/swrproxy/internal/server"
	"github.com/swrproxy/swrproxy/internal/telemetry"
)

// ErrCut is returned by Drain when its context ended before everything had finished.
var ErrCut = errors.New("app: cut before everything had finished")

// Options are what settings do not say.
type Options struct {
	// Out gets the addresses once they are bound, one line each. Nil drops them.
	Out io.Writer
	// Log gets log lines. Nil drops them.
	Log io.Writer
	// Load reads the settings again for Reload. Nil means that there is nothing to reload but certificates.
	Load func() (*config.Config, error)
	// Version is shown in metrics.
	Version string
}

// App is one running proxy. Safe for concurrent use after Start.
type App struct {
	o         Options
	lines     *telemetry.LineBuffer
	trimmer   *trimmer // nil before Start
	pacer     *pacer   // nil before Start
	logger    zerolog.Logger
	tiers     *tiers
	cache     *cache.Cache
	server    *server.Server
	admin     *admin.Admin // nil without an admin listener
	telemetry *telemetry.Telemetry
	pools     origins
	state     atomic.Uint32 // of type state
	trusted   atomic.Pointer[[]netip.Prefix]
	purgers   atomic.Pointer[[]netip.Prefix]

	mu  sync.Mutex // guards following; serialises reloads
	cfg *config.Config
}

// state is where an App is in its life; what /readyz says.
type state uint32

const (
	starting state = iota
	serving
	draining
)

var stateNames = [...]string{"starting", "serving", "draining"}

// String returns the state's word.
func (s state) String() string { return stateNames[s] }

// New builds everything that cfg describes and opens no listener yet.
func New(cfg *config.Config, o Options) (*App, error) {
	if o.Out == nil {
		o.Out = io.Discard
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	a := &App{o: o, cfg: cfg}
	a.trusted.Store(&cfg.TrustedProxies)
	a.purgers.Store(&cfg.Purge.Allow)
	if err := a.build(); err != nil {
		a.abandon()
		return nil, err
	}
	for _, w := range cfg.Warnings() {
		a.logger.Warn().Str("at", w.Path).Str("mend", w.Mend).Msg(w.What)
	}
	return a, nil
}

// build makes the parts in the order in which they need each other.
func (a *App) build() error {
	registry := prometheus.NewRegistry()
	for _, step := range []func(*prometheus.Registry) error{
		a.buildLogger, a.buildTelemetry, a.buildOrigins, a.buildCache, a.buildServer, a.watch, a.buildAdmin,
	} {
		if err := step(registry); err != nil {
			return err
		}
	}
	return nil
}

func (a *App) buildLogger(*prometheus.Registry) error {
	// The logger itself lets everything through: the process-wide level, which a reload can change, decides.
	a.lines = telemetry.NewLineBuffer(a.o.Log)
	logger, err := telemetry.NewLogger(string(a.cfg.Log.Format), "debug", a.lines)
	a.logger = logger
	setLevel(a.cfg)
	return err
}

func (a *App) buildTelemetry(registry *prometheus.Registry) (err error) {
	a.telemetry, err = telemetry.New(telemetry.Options{
		Logger: a.logger, Registry: registry, Rules: ruleNames(a.cfg), Version: a.o.Version, Access: accessOf(a.cfg.Log),
	})
	return err
}

func (a *App) buildOrigins(*prometheus.Registry) (err error) {
	set, err := newPoolSet(a.cfg, nil)
	if err != nil {
		return err
	}
	a.pools.swap(set)
	return nil
}

func (a *App) buildCache(*prometheus.Registry) error {
	tiers, err := openTiers(a.cfg, a.logger)
	if err != nil {
		return err
	}
	keeper, seq, err := openKeeper(a.cfg.Fill, tiers.lastToken(), a.telemetry)
	if err != nil {
		return errors.Join(err, closeNow(tiers.Store))
	}
	cfg := cacheConfig(a.cfg, a.pools.current())
	cfg.Store, cfg.Keeper, cfg.Sequence = tiers.Store, keeper, seq
	cfg.Observer, cfg.Scheme = a.telemetry, a.scheme
	if a.cache, err = cache.New(cfg); err != nil {
		return errors.Join(err, closeNow(tiers.Store, keeper))
	}
	a.tiers = tiers
	return nil
}

func (a *App) buildServer(*prometheus.Registry) (err error) {
	o := serverOptions(a.cfg)
	o.Hits, o.Logger = a.cache, a.logger
	a.server, err = server.New(o, a.Handler())
	return err
}

func (a *App) buildAdmin(registry *prometheus.Registry) (err error) {
	if !a.cfg.Admin.Enabled() {
		return nil
	}
	a.admin, err = admin.New(admin.Options{
		Listen: a.cfg.Admin.Listen.Addr, Token: string(a.cfg.Admin.Token), Pprof: a.cfg.Admin.Pprof,
		Gatherer: registry, Ready: a.ready, Degraded: a.degraded, Logger: a.logger, Cache: a.cache, Tiers: a.tiers.counted, Refills: refillsOf(a.cfg.Fill),
	})
	return err
}

// ready is what /readyz says.
func (a *App) ready() (ok bool, why string) {
	s := state(a.state.Load())
	return s == serving, s.String()
}

// degraded is what /readyz tells beside; the error, which may name paths, is in the log alone.
func (a *App) degraded() string {
	if a.tiers.disk != nil && a.tiers.disk.Metrics().Failing {
		return "writes to the disk tier fail"
	}
	if a.tiers.diskLost {
		return "the disk tier could not be opened"
	}
	return ""
}

// Handler returns what the listeners serve, for tests and for serving it otherwise.
func (a *App) Handler() http.Handler {
	purge := admin.PurgeMethod{
		Cache: a.cache, Allow: func() []netip.Prefix { return *a.purgers.Load() }, Scheme: a.scheme, Observer: a.telemetry,
	}
	return purge.Wrap(a.cache.Proxy(nil))
}

// Start binds every address, or none, begins to serve, and prints the addresses.
func (a *App) Start() error {
	if err := a.server.Start(); err != nil {
		a.abandon()
		return fmt.Errorf("listen: %w", err)
	}
	if err := a.startAdmin(); err != nil {
		_ = a.server.Close() // the admin listener's error is the one to report
		a.abandon()
		return fmt.Errorf("listen: %w", err)
	}
	a.trimmer = newTrimmer()
	go a.trimmer.run()
	a.pacer = newPacer(int64(a.cfg.Memory.Max))
	a.state.Store(uint32(serving))
	a.announce()
	return nil
}

func (a *App) startAdmin() error {
	if a.admin == nil {
		return nil
	}
	return a.admin.Start()
}

// announce tells people and programs where the proxy listens. The order is fixed: listeners, admin, ready.
func (a *App) announce() {
	for _, url := range a.URLs() {
		fmt.Fprintf(a.o.Out, "listening on %s\n", url)
		a.logger.Info().Str("url", url).Msg("listening")
	}
	if url := a.AdminURL(); url != "" {
		fmt.Fprintf(a.o.Out, "admin on %s\n", url)
		a.logger.Info().Str("url", url).Msg("admin listening")
	}
	fmt.Fprintln(a.o.Out, "ready")
}

// URLs returns the bases of the listeners, such as "http://127.0.0.1:8080". Empty before Start.
func (a *App) URLs() []string {
	secure, _ := splitListeners(a.cfg)
	var urls []string
	for i, addr := range a.server.Addrs() {
		scheme := "http"
		if len(a.cfg.TLS) > 0 && i < len(secure) {
			scheme = "https"
		}
		urls = append(urls, scheme+"://"+addr.String())
	}
	return urls
}

// AdminURL returns the base of the admin listener, "" if there is none or before Start.
func (a *App) AdminURL() string {
	if a.admin == nil || a.admin.Addr() == nil {
		return ""
	}
	return "http://" + a.admin.Addr().String()
}

// Err delivers the failure of a listener that cannot accept any more.
func (a *App) Err() <-chan error { return a.server.Err() }
