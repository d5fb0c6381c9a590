package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"

	"github.com/swrproxy/swrproxy/cache"
)

// Options are the settings of an [Admin].
type Options struct {
	// Listen is the address, "host:port"; port 0 takes a free one. Required for Start, not for Handler.
	Listen string
	// Token is what clients must show. "" is allowed on loopback addresses only. It should have 16 bytes or more.
	Token string
	// Gatherer is what /metrics shows. Nil leaves the path out.
	Gatherer prometheus.Gatherer
	// Pprof serves /debug/pprof/.
	Pprof bool
	// Ready tells whether the process wants traffic, and if not why, in a word such as "draining". Nil means always.
	Ready func() (ok bool, why string)
	// Degraded tells what works less well than it should though the process wants traffic, in a few words; "" for nothing. /readyz shows it.
	// Nil means nothing ever.
	Degraded func() string
	// Cache is what the paths below /v1 act on. Nil leaves them out.
	Cache Cache
	// Tiers are the stores by name, for /v1/stats.
	Tiers map[string]cache.StatsSource
	// Refills is how many URLs are fetched at once for purges with "refresh". 0 means 16.
	Refills int
	// Logger gets what net/http has to say. The zero value drops it.
	Logger zerolog.Logger
}

// ErrNoToken is returned by New when an address that others can reach has no token.
var ErrNoToken = errors.New("admin: an address that is not loopback needs admin.token")

// Admin is the operator's listener.
type Admin struct {
	o      Options
	api    *api // nil without a cache
	mux    *http.ServeMux
	open   *http.ServeMux // paths that need no token
	server *http.Server
	ln     net.Listener
	served chan struct{} // closed when Serve has returned
}

// New makes the listener's handler. Start binds it.
func New(o Options) (*Admin, error) {
	if o.Token == "" && o.Listen != "" && !isLoopback(o.Listen) {
		return nil, fmt.Errorf("%w: %s", ErrNoToken, o.Listen)
	}
	a := &Admin{o: o, mux: http.NewServeMux(), open: http.NewServeMux()}
	a.open.HandleFunc("GET /healthz", healthz)
	a.open.HandleFunc("GET /readyz", a.readyz)
	if o.Gatherer != nil {
		a.mux.Handle("GET /metrics", promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	}
	if o.Pprof {
		a.mountPprof()
	}
	if o.Cache != nil {
		a.api = newAPI(o)
		a.api.mount(a.mux)
	}
	a.mux.HandleFunc("/", notFound)
	return a, nil
}

// Handle mounts h on a pattern of [http.ServeMux], such as "POST /v1/purge". The listener's own checks come first. It must be called before
// Start and panics, as ServeMux does, for a pattern that is taken or malformed.
func (a *Admin) Handle(pattern string, h http.Handler) { a.mux.Handle(pattern, h) }

// Handler returns what the listener serves, checks included.
func (a *Admin) Handler() http.Handler { return http.HandlerFunc(a.serveHTTP) }

// Start binds the address and begins to serve.
func (a *Admin) Start() error {
	ln, err := net.Listen("tcp", a.o.Listen)
	if err != nil {
		return fmt.Errorf("admin: listen: %w", err)
	}
	a.ln = ln
	a.served = make(chan struct{})
	a.server = &http.Server{
		Handler:           a.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          standardLog(a.o.Logger),
	}
	go func() {
		defer close(a.served)
		if err := a.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			a.o.Logger.Error().Err(err).Msg("admin listener failed")
		}
	}()
	return nil
}

// Addr returns the bound address, nil before Start.
func (a *Admin) Addr() net.Addr {
	if a.ln == nil {
		return nil
	}
	return a.ln.Addr()
}

// Close stops serving: requests under way may finish until ctx ends. Refills that wait are dropped, those that run are left to the cache.
func (a *Admin) Close(ctx context.Context) error {
	if a.api != nil {
		a.api.refiller.close()
	}
	if a.server == nil {
		return nil
	}
	err := a.server.Shutdown(ctx)
	if err != nil {
		_ = a.server.Close() // its error is the same listener's
	}
	<-a.served
	return err
}
