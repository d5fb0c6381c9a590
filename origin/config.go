package origin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Defaults of a [Config].
const (
	// DefaultConnectTimeout is Timeouts.Connect when it is 0, and Timeouts.TLS too.
	DefaultConnectTimeout = 5 * time.Second
	// DefaultHeaderTimeout is Timeouts.Header when it is 0, and Timeouts.IdleBody too.
	DefaultHeaderTimeout = 30 * time.Second
	// DefaultMaxIdle is Pool.MaxIdle when it is 0: as many as the fills that a cache runs at once by default, so that a
	// burst of misses finds its connections again.
	DefaultMaxIdle = 512
	// DefaultIdleTimeout is Pool.IdleTimeout when it is 0: below the 75 s after which nginx, a frequent origin, closes.
	DefaultIdleTimeout = 60 * time.Second
	// DefaultMaxFails is Health.MaxFails when it is 0.
	DefaultMaxFails = 3
	// DefaultFailFor is Health.FailFor when it is 0.
	DefaultFailFor = 10 * time.Second
	// DefaultResolveEvery is Pool.ResolveEvery when it is 0.
	DefaultResolveEvery = 30 * time.Second
	// DefaultVia is Via when it is "".
	DefaultVia = "swrproxy"
)

// HostMode says which Host an origin is sent when Config.Host is "". A closed enum.
type HostMode uint8

const (
	// HostPreserve sends the client's own. It is the zero value.
	HostPreserve HostMode = iota
	// HostOfURL sends the host of the URL that was chosen.
	HostOfURL
)

// String returns the mode's word in settings.
func (m HostMode) String() string {
	if m == HostOfURL {
		return "url"
	}
	return "preserve"
}

// Config describes an origin. Only URLs is required.
type Config struct {
	// Name identifies the origin in errors of New. Optional.
	Name string
	// URLs are the origin's equal servers, at least one. Schemes: http, https (HTTP/2 where ALPN agrees on it), h2c
	// (HTTP/2 over plain TCP with prior knowledge). A path is put before every request's path; query, fragment and user
	// information are refused.
	URLs []*url.URL
	// Host, if not "", is sent as Host whatever the client said.
	Host string
	// HostMode says what is sent as Host when Host is "". 0 is HostPreserve.
	HostMode HostMode
	// Timeouts bound the origin's silences.
	Timeouts Timeouts
	// Pool bounds the connections, for each URL.
	Pool PoolConfig
	// Health says when a URL is left alone for a while.
	Health Health
	// TLS is for URLs with scheme https.
	TLS TLS
	// TrustedProxies are the peers whose X-Forwarded-*, X-Real-IP and Forwarded fields are kept and extended. Those of any
	// other peer are dropped and written anew. None by default.
	TrustedProxies []netip.Prefix
	// KeepOverrideFields forwards the fields that some frameworks let override the request's target, host or method:
	// X-Original-URL, X-Rewrite-URL, X-HTTP-Method-Override, X-Host, X-Forwarded-Scheme and their kin. They are no part of
	// the cache key, so that by default they are dropped, whoever the peer is.
	KeepOverrideFields bool
	// Via is the pseudonym in Via (RFC 9110 §7.6.3). "" means DefaultVia. Proxies behind one another may share it: only the
	// MaxHops-th pass counts as a loop.
	Via string
	// Dial, if not nil, makes the TCP connections; it must heed the context. The address is host:port as in the URL.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Lookup, if not nil, resolves names to notice changes (see PoolConfig.ResolveEvery). Nil uses net.DefaultResolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)

	plain plainUse // tests choose
}

// Timeouts bound how long an origin may be silent. In each, 0 is the default and negative no limit.
type Timeouts struct {
	// Connect bounds name resolution plus TCP connect. Default 5 s.
	Connect time.Duration
	// TLS bounds the handshake. Default 5 s.
	TLS time.Duration
	// Header bounds the time from the request's last byte to the response head. Default 30 s. It also bounds the wait for
	// a connection when Pool.MaxConns are all in use.
	Header time.Duration
	// IdleBody bounds each silence inside a response body while somebody reads it, and each stop of the origin in taking
	// a request body. Default 30 s. text/event-stream, application/grpc and upgraded connections are silent by nature and exempt.
	IdleBody time.Duration
}

// PoolConfig bounds the connections to one URL.
type PoolConfig struct {
	// MaxIdle is how many unused connections are kept. 0 means 512, negative none.
	MaxIdle int
	// MaxConns is how many connections there may be at once; more requests wait, up to Timeouts.Header. 0 or negative: no limit.
	MaxConns int
	// IdleTimeout is how long an unused connection is kept. 0 means 60 s, negative for ever.
	IdleTimeout time.Duration
	// ResolveEvery is how often a URL's host name, if it is in use, is looked up again. When its addresses changed, unused
	// connections are closed and used ones not used again. 0 means 30 s, negative never.
	ResolveEvery time.Duration
}

// Health says when a URL is passed over. With one URL, or when all are down, nothing is: the next request tries.
type Health struct {
	// MaxFails is how many failures in a row take a URL out. 0 means 3, negative never.
	MaxFails int
	// FailFor is how long it stays out; then one request tries it, and its outcome decides. 0 means 10 s.
	FailFor time.Duration
	// GatewayErrors counts answers of 502, 503 and 504 as failures. They are passed on all the same and not retried.
	// Off by default: one broken page is no broken server.
	GatewayErrors bool
}

// TLS says how https URLs are spoken to. The zero value verifies against the system's roots.
type TLS struct {
	// CAFile holds the only trusted roots, PEM. "" means the system's.
	CAFile string
	// CertFile and KeyFile are the client certificate, PEM. Both or none.
	CertFile, KeyFile string
	// ServerName is sent as SNI and verified. "" means the URL's host.
	ServerName string
	// InsecureSkipVerify accepts any certificate.
	InsecureSkipVerify bool
}

// withDefaults returns c with every documented default filled in and negative limits turned to 0, "none".
func (c Config) withDefaults() Config {
	c.Timeouts.Connect = orDefault(c.Timeouts.Connect, DefaultConnectTimeout)
	c.Timeouts.TLS = orDefault(c.Timeouts.TLS, DefaultConnectTimeout)
	c.Timeouts.Header = orDefault(c.Timeouts.Header, DefaultHeaderTimeout)
	c.Timeouts.IdleBody = orDefault(c.Timeouts.IdleBody, DefaultHeaderTimeout)
	c.Pool.IdleTimeout = orDefault(c.Pool.IdleTimeout, DefaultIdleTimeout)
	c.Pool.ResolveEvery = orDefault(c.Pool.ResolveEvery, DefaultResolveEvery)
	if c.Pool.MaxIdle == 0 {
		c.Pool.MaxIdle = DefaultMaxIdle
	}
	c.Pool.MaxConns = max(c.Pool.MaxConns, 0)
	if c.Health.MaxFails == 0 {
		c.Health.MaxFails = DefaultMaxFails
	}
	if c.Health.FailFor <= 0 {
		c.Health.FailFor = DefaultFailFor
	}
	if c.Via == "" {
		c.Via = DefaultVia
	}
	return c
}

func orDefault(d, def time.Duration) time.Duration {
	switch {
	case d == 0:
		return def
	case d < 0:
		return 0
	default:
		return d
	}
}

// check refuses what can not work.
func (c *Config) check() error {
	if len(c.URLs) == 0 {
		return errors.New("no url")
	}
	for _, u := range c.URLs {
		if err := checkURL(u); err != nil {
			return err
		}
	}
	if c.Host != "" && c.HostMode == HostOfURL {
		return errors.New("host: a fixed value and the url's own are both asked for")
	}
	if c.Host != "" && !httpguts.ValidHostHeader(c.Host) {
		return fmt.Errorf("host %q: not a valid Host", c.Host)
	}
	if !validPseudonym(c.Via) {
		return fmt.Errorf("via %q: not a host or token", c.Via)
	}
	return nil
}

func checkURL(u *url.URL) error {
	switch {
	case u == nil:
		return errors.New("url: nil")
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "h2c":
		return fmt.Errorf("url %s: scheme must be http, https or h2c", u.Redacted())
	case u.Hostname() == "":
		return fmt.Errorf("url %s: no host", u.Redacted())
	case u.User != nil:
		return fmt.Errorf("url %s: user information is not supported", u.Redacted())
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return fmt.Errorf("url %s: query and fragment are not allowed", u.Redacted())
	case u.Opaque != "" || (u.Path != "" && u.Path[0] != '/'):
		return fmt.Errorf("url %s: path must begin with /", u.Redacted())
	}
	return nil
}

// validPseudonym reports whether s is a Via pseudonym: a token, or host[:port] (RFC 9110 §7.6.3).
func validPseudonym(s string) bool {
	return s != "" && !strings.ContainsAny(s, " \t,;()\"") && httpguts.ValidHeaderFieldValue(s)
}
