package origin

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// Sizes of a transport that no setting changes.
const (
	// maxResponseHead bounds a response head in bytes; net/http's own 10 MiB is room for mischief.
	maxResponseHead = 1 << 20
	// readBuffer and writeBuffer belong to each connection. A read buffer of 8 KiB takes most heads with a small body in one
	// system call; larger bodies are read past it.
	readBuffer  = 8 << 10
	writeBuffer = 4 << 10
	// expectContinue is how long a request with Expect: 100-continue keeps its body back (RFC 9110 §10.1.1).
	expectContinue = time.Second
	// Dead HTTP/2 connections are found by a ping after this silence, answered within that limit.
	pingAfter   = 15 * time.Second
	pingTimeout = 5 * time.Second
)

// target is one URL of an origin with its connections and health.
//
// Safe for concurrent use.
type target struct {
	name     string // scheme://host:port, for errors and Status
	scheme   string // http or https: what net/http is told
	host     string // host[:port]
	hostname string // to resolve; "" for an address
	dialAddr string // host:port
	base     string // decoded path before every request's path, without a final slash
	rawBase  string // the same, escaped
	unusual  bool   // rawBase is not the escaping that net/url would choose
	http2    bool   // main may speak HTTP/2
	health   health
	dialer   dialer
	open     connSet
	cfg      *Config

	main    atomic.Pointer[http.Transport] // replaced when the name's addresses change
	upgrade *http.Transport                // HTTP/1.1 only, nothing kept
	plain   *plain                         // for most requests of a plain http URL; nil elsewhere

	resolveAt atomic.Int64                 // since the pool's epoch: when the name is looked up next
	addrs     atomic.Pointer[[]netip.Addr] // the last answer, sorted

	inFlight  atomic.Int64
	exchanges atomic.Uint64
	failures  [NumClasses]atomic.Uint64
	lastError atomic.Pointer[Failure]
}

func newTarget(u *url.URL, cfg *Config) (*target, error) {
	t := &target{
		name:    u.Scheme + "://" + u.Host,
		scheme:  u.Scheme,
		host:    u.Host,
		rawBase: strings.TrimRight(u.EscapedPath(), "/"),
		unusual: u.RawPath != "",
		http2:   u.Scheme != "http",
		cfg:     cfg,
	}
	if u.Scheme == "h2c" {
		t.scheme = "http"
	}
	var err error
	if t.base, err = url.PathUnescape(t.rawBase); err != nil { // trimmed while escaped: a final %2F stays
		return nil, err
	}
	if _, err := netip.ParseAddr(u.Hostname()); err != nil {
		t.hostname = u.Hostname()
	}
	t.health.maxFails, t.health.failFor = int32(cfg.Health.MaxFails), cfg.Health.FailFor
	t.dialer = dialer{dial: cfg.Dial, connect: cfg.Timeouts.Connect, handshake: cfg.Timeouts.TLS, url: t.name, open: &t.open}
	if t.dialer.dial == nil {
		t.dialer.dial = new(net.Dialer).DialContext
	}
	if u.Scheme == "https" {
		if err := t.loadTLS(u.Hostname()); err != nil {
			return nil, err
		}
	}
	t.main.Store(t.newTransport(u.Scheme))
	t.upgrade = t.newUpgradeTransport()
	t.dialAddr = dialAddr(u)
	t.plain = newPlain(t, u.Scheme)
	return t, nil
}

// dialAddr is where an http URL is reached.
func dialAddr(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// newTransport makes the transport for all but upgrades.
func (t *target) newTransport(scheme string) *http.Transport {
	tr := t.bareTransport()
	tr.Protocols = new(http.Protocols)
	switch scheme {
	case "h2c":
		tr.Protocols.SetUnencryptedHTTP2(true)
	case "https":
		tr.Protocols.SetHTTP1(true)
		tr.Protocols.SetHTTP2(true)
		tr.DialTLSContext = t.dialer.tls
	default:
		tr.Protocols.SetHTTP1(true)
	}
	tr.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout}
	return tr
}

// newUpgradeTransport makes the transport for upgrades, whose connections are never used twice.
func (t *target) newUpgradeTransport() *http.Transport {
	tr := t.bareTransport()
	tr.Protocols = new(http.Protocols)
	tr.Protocols.SetHTTP1(true)
	tr.DisableKeepAlives = false // true would send Connection: close in place of upgrade
	tr.MaxIdleConnsPerHost = -1
	tr.DialTLSContext = t.dialer.tlsHTTP1
	return tr
}

func (t *target) bareTransport() *http.Transport {
	return &http.Transport{
		DialContext:            t.dialer.tcp,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    t.cfg.Pool.MaxIdle,
		MaxConnsPerHost:        t.cfg.Pool.MaxConns,
		IdleConnTimeout:        t.cfg.Pool.IdleTimeout,
		ResponseHeaderTimeout:  t.cfg.Timeouts.Header,
		ExpectContinueTimeout:  expectContinue,
		MaxResponseHeaderBytes: maxResponseHead,
		ReadBufferSize:         readBuffer,
		WriteBufferSize:        writeBuffer,
	}
}

// transport returns the transport for an upgrade to the given protocol, or for no upgrade.
func (t *target) transport(upgrade string) *http.Transport {
	if upgrade != "" && t.http2 {
		return t.upgrade
	}
	return t.main.Load()
}

// renew puts a fresh transport in the place of the present one: connections not in use are closed now, those in use
// when their exchange is done, see retire.
func (t *target) renew() {
	scheme, _, _ := strings.Cut(t.name, "://")
	t.main.Swap(t.newTransport(scheme)).CloseIdleConnections()
	t.plain.renew()
}

// retire closes what an exchange left idle in a transport that was replaced meanwhile. tr is nil for an exchange without one.
func (t *target) retire(tr *http.Transport) {
	if tr != nil && tr != t.main.Load() {
		tr.CloseIdleConnections()
	}
}

// closeIdle closes the connections that are not in use, for good.
func (t *target) closeIdle() {
	t.plain.shut()
	t.main.Load().CloseIdleConnections()
	t.upgrade.CloseIdleConnections()
}

// loadTLS reads the files once; a reload makes a new pool.
func (t *target) loadTLS(hostname string) error {
	cfg := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         t.cfg.TLS.ServerName,
		InsecureSkipVerify: t.cfg.TLS.InsecureSkipVerify,
		ClientSessionCache: tls.NewLRUClientSessionCache(0),
		NextProtos:         []string{"h2", "http/1.1"},
	}
	if cfg.ServerName == "" {
		cfg.ServerName = hostname
	}
	if err := loadRoots(cfg, t.cfg.TLS.CAFile); err != nil {
		return err
	}
	if err := loadClientCertificate(cfg, t.cfg.TLS.CertFile, t.cfg.TLS.KeyFile); err != nil {
		return err
	}
	t.dialer.tlsClient = cfg
	t.dialer.tlsUpgrade = cfg.Clone()
	t.dialer.tlsUpgrade.NextProtos = []string{"http/1.1"}
	return nil
}

func loadRoots(cfg *tls.Config, file string) error {
	if file == "" {
		return nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("tls ca file: %w", err)
	}
	cfg.RootCAs = x509.NewCertPool()
	if !cfg.RootCAs.AppendCertsFromPEM(pem) {
		return fmt.Errorf("tls ca file %s: no certificate in it", file)
	}
	return nil
}

func loadClientCertificate(cfg *tls.Config, certFile, keyFile string) error {
	if certFile == "" && keyFile == "" {
		return nil
	}
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return fmt.Errorf("tls client certificate: %w", err)
	}
	cfg.Certificates = []tls.Certificate{cert}
	return nil
}
