package server

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Server serves one handler on all its addresses. Safe for concurrent use.
type Server struct {
	o         Options
	handler   http.Handler
	http      *http.Server
	certs     *certificates // nil without TLS
	tlsConfig *tls.Config
	listeners []*listener
	queue     *queue
	loops     []*loop
	watch     *watch // of the loops
	nextLoop  atomic.Uint32
	jobs      chan *conn   // to workers that rest
	resting   atomic.Int32 // how many those are
	requests  context.Context
	links     *links
	twins     *twins
	say       *voice
	stats     counters
	errs      chan error

	life       context.Context // ends when everything has to
	endLife    context.CancelFunc
	stopping   chan struct{} // closed when no more is to be accepted
	stopOnce   sync.Once
	accepting  sync.WaitGroup // listeners
	handshakes sync.WaitGroup
	serving    sync.WaitGroup // net/http's Serve
	looping    sync.WaitGroup
	draining   atomic.Bool
	restless   atomic.Bool // connections shall not rest any more
	epoch      time.Time   // the beginning of spans on connections
}

// ErrNotStarted is returned by Drain of a server that was never started.
var ErrNotStarted = errors.New("server: not started")

// New makes a server that is not started yet. It loads the certificates.
func New(o Options, h http.Handler) (*Server, error) {
	if err := o.withDefaults().check(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	s := &Server{
		o: o, handler: h,
		links:    newLinks(o.MaxConns),
		twins:    newTwins(o.TwinBytes),
		say:      newVoice(o.Logger),
		errs:     make(chan error, 1),
		stopping: make(chan struct{}),
		epoch:    time.Now(),
		jobs:     make(chan *conn),
		queue:    &queue{conns: make(chan net.Conn), closed: make(chan struct{})},
	}
	s.life, s.endLife = context.WithCancel(context.Background())
	if o.TLS != nil {
		certs, err := loadCertificates(o.TLS.Certificates)
		if err != nil {
			return nil, err
		}
		s.certs, s.tlsConfig = certs, certs.config(o.TLS)
	}
	s.http = s.newHTTP()
	s.requests = context.WithValue(context.Background(), http.ServerContextKey, s.http) // as net/http has it
	return s, nil
}

// newHTTP sets net/http up: the limits it keeps itself, and our eyes on its connections.
func (s *Server) newHTTP() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(s.o.H2C)
	return &http.Server{
		Handler:           http.HandlerFunc(s.serveHTTP),
		ReadHeaderTimeout: s.o.ReadHeaderTimeout,
		IdleTimeout:       s.o.IdleTimeout,
		MaxHeaderBytes:    s.o.MaxHeaderBytes,
		ErrorLog:          s.say.standard(),
		ConnState:         connState,
		ConnContext:       s.connContext,
		Protocols:         protocols,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams,
			SendPingTimeout:      s.o.IdleTimeout / 2,
		},
	}
}

// maxStreams is how many requests one HTTP/2 connection may have open: what net/http, nginx and Envoy allow within a factor of
// two, low enough that a rapid reset costs little.
const maxStreams = 128

func connState(c net.Conn, state http.ConnState) {
	switch c := c.(type) {
	case *conn:
		c.stateChanged(state)
	case tlsHTTP1:
		c.stateChanged(state)
	}
}

// Start binds every address, or none and returns the error, and begins to serve.
func (s *Server) Start() error {
	if err := s.bindAll(); err != nil {
		return err
	}
	if err := s.startLoops(); err != nil {
		s.stopLoops()
		s.unbind()
		return err
	}
	s.queue.addr = s.listeners[0].ln.Addr()
	s.serving.Go(func() {
		_ = s.http.Serve(s.queue) // returns when the queue closes, which is our doing
	})
	for _, l := range s.listeners {
		s.accepting.Go(l.run)
	}
	return nil
}

func (s *Server) stopLoops() {
	for _, l := range s.loops {
		l.stop()
	}
	s.looping.Wait()
}

// Addrs returns the bound addresses in the order of Options.Listen and then ListenPlain. Empty before Start.
func (s *Server) Addrs() []net.Addr {
	addrs := make([]net.Addr, 0, len(s.listeners))
	for _, l := range s.listeners {
		addrs = append(addrs, l.ln.Addr())
	}
	return addrs
}

// Err delivers the failure of a listener that cannot accept any more. It is never closed.
func (s *Server) Err() <-chan error { return s.errs }

func (s *Server) fail(err error) {
	select {
	case s.errs <- err:
	default: // one is enough to end the process
	}
}

// ReloadCertificates reads all certificate files again. On an error the present ones stay in use. Connections that are open keep theirs.
// Without TLS it does nothing.
func (s *Server) ReloadCertificates() error {
	if s.certs == nil {
		return nil
	}
	return s.certs.reload()
}

func (s *Server) isStopping() bool {
	select {
	case <-s.stopping:
		return true
	default:
		return false
	}
}
