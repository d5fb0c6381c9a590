package server

import (
	"errors"
	"time"

	"github.com/rs/zerolog"
)

// Options are the settings of a [Server]. The zero value of each field but Listen is usable.
type Options struct {
	// Listen are the addresses to serve, "host:port"; port 0 takes a free one. At least one here or in ListenPlain.
	// They speak TLS exactly if TLS is set.
	Listen []string
	// ListenPlain are further addresses that speak plain HTTP whatever TLS says.
	ListenPlain []string
	// TLS holds the certificates. Nil means plain HTTP.
	TLS *TLSOptions
	// H2C accepts HTTP/2 with prior knowledge on plain connections (RFC 9113 §3.3). The default is not to.
	H2C bool
	// ReadHeaderTimeout bounds the time from a request's first byte to its head's last, and a TLS handshake. 0 means 10 s.
	ReadHeaderTimeout time.Duration
	// ReadBodyIdle is how long a request body may stand still while somebody reads it. 0 means 60 s, negative no limit.
	ReadBodyIdle time.Duration
	// WriteIdle is how long a response may wait for a client that takes no byte. It may take a quarter longer until that is seen. 0 means 60 s, negative no
	// limit.
	WriteIdle time.Duration
	// IdleTimeout is how long a connection may rest between requests. 0 means 60 s.
	IdleTimeout time.Duration
	// MaxHeaderBytes bounds a request's head: request line, fields and empty line. 0 means 64 KiB. The smallest is 1 KiB.
	MaxHeaderBytes int
	// MaxConns bounds open connections. At the bound no more are accepted until one ends; the kernel queues them. 0 means no bound.
	MaxConns int
	// DrainTimeout is how long Drain waits for requests before it cuts them. 0 means 30 s.
	DrainTimeout time.Duration
	// DrainIdle is how long Drain keeps resting connections open, so that a request already on its way is answered (with
	// Connection: close) instead of reset. 0 means 1 s, negative not at all. It counts against DrainTimeout.
	DrainIdle time.Duration
	// Hits answers what it can from memory on plain HTTP/1.1 connections before net/http sees the request. Nil means nothing does.
	Hits HitSource
	// TwinBytes is how much memory may hold second copies of large bodies that are asked for often, from which the kernel sends
	// without copying. It comes on top of the cache's own. 0 means 64 MiB, negative none. Linux only.
	TwinBytes int64
	// Logger gets the few lines a server has to say, rate-limited. The zero value drops them.
	Logger zerolog.Logger
}

const (
	defaultReadHeader  = 10 * time.Second
	defaultIdle        = 60 * time.Second
	defaultDrain       = 30 * time.Second
	defaultDrainIdle   = time.Second
	defaultHeaderBytes = 64 << 10
	minHeaderBytes     = 1 << 10
	defaultTwinBytes   = 64 << 20
)

// withDefaults returns o with every zero replaced by what it means; afterwards 0 stands for "no limit".
func (o Options) withDefaults() Options {
	o.ReadHeaderTimeout = positive(o.ReadHeaderTimeout, defaultReadHeader)
	o.IdleTimeout = positive(o.IdleTimeout, defaultIdle)
	o.DrainTimeout = positive(o.DrainTimeout, defaultDrain)
	o.ReadBodyIdle = orDefault(o.ReadBodyIdle, defaultIdle)
	o.WriteIdle = orDefault(o.WriteIdle, defaultIdle)
	o.DrainIdle = orDefault(o.DrainIdle, defaultDrainIdle)
	if o.TwinBytes == 0 {
		o.TwinBytes = defaultTwinBytes
	}
	if o.MaxHeaderBytes <= 0 {
		o.MaxHeaderBytes = defaultHeaderBytes
	}
	return o
}

// positive is for spans that cannot be switched off.
func positive(d, def time.Duration) time.Duration {
	if d <= 0 {
		return def
	}
	return d
}

// orDefault is for spans where negative means none.
func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return max(d, 0)
}

// check reports settings that cannot work.
func (o Options) check() error {
	switch {
	case len(o.Listen)+len(o.ListenPlain) == 0:
		return errors.New("server: no address to listen on")
	case o.MaxHeaderBytes < minHeaderBytes:
		return errors.New("server: MaxHeaderBytes below 1 KiB")
	case o.MaxConns < 0:
		return errors.New("server: MaxConns is negative")
	case o.TLS != nil && len(o.TLS.Certificates) == 0:
		return errors.New("server: TLS without a certificate")
	}
	return nil
}
