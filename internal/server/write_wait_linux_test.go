package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestWriteWaitLook(t *testing.T) {
	type look struct {
		wrote int64
		left  int
		quiet int // afterwards
	}
	for name, list := range map[string][]look{
		"nothing moves":               {{0, 100, 1}, {0, 100, 2}, {0, 100, 3}, {0, 100, 4}, {0, 100, 5}},
		"the client takes some":       {{0, 100, 1}, {0, 100, 2}, {0, 99, 1}, {0, 99, 2}},
		"the kernel makes up for it":  {{0, 100, 1}, {1, 100, 1}, {0, 100, 2}},
		"the kernel takes more of it": {{0, 100, 1}, {50, 149, 1}, {0, 149, 2}},
		"the kernel takes some":       {{0, 100, 1}, {50, 150, 2}},
		"nothing is known":            {{0, -1, 1}, {0, -1, 2}},
		"only the write is known":     {{0, -1, 1}, {1, -1, 1}, {0, -1, 2}},
		"more is known later":         {{0, -1, 1}, {0, 100, 2}},
		"less is known later":         {{0, 100, 1}, {0, -1, 2}},
	} {
		var w writeWait
		for i, l := range list {
			if on := w.look(l.wrote, l.left); w.quiet != l.quiet || on != (l.quiet <= looks) {
				t.Errorf("%s: after look %d %d were quiet, want %d; it goes on: %t", name, i+1, w.quiet, l.quiet, on)
			}
		}
	}
}

// A sipper takes so little at a time that the kernel does not report room for several times the limit.
const (
	sipPiece = 16 << 10
	sips     = 4 * int(steadyLimit/steadyPause)
)

// sipper is a client's connection whose reader takes one sip for each pause, and after all of them whatever is there. Used by one reader.
type sipper struct {
	net.Conn
	n int // bytes that it took
}

func (s *sipper) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b[:min(len(b), sipPiece)])
	before := s.n / sipPiece
	if s.n += n; before < sips && s.n/sipPiece > before {
		<-time.After(steadyPause)
	}
	return n, err
}

// dialSlow connects with a window that opens in small steps: by not less than a segment, of which loopback's have 64 KiB, and seldom by less than it
// has.
func dialSlow(s *Server) (net.Conn, error) {
	d := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		if over := raw.Control(func(fd uintptr) {
			err = errors.Join(
				unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, 1400),
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 16<<10))
		}); over != nil {
			return over
		}
		return err
	}}
	return d.Dial("tcp", s.Addrs()[0].String())
}

// speaker is how a client speaks to a server.
type speaker struct {
	secure bool
	set    func(p *http.Protocols)
}

var speakers = map[string]speaker{
	"HTTP/1.1":       {false, func(p *http.Protocols) { p.SetHTTP1(true) }},
	"HTTP/2":         {false, func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) }},
	"HTTP/1.1 (TLS)": {true, func(p *http.Protocols) { p.SetHTTP1(true) }},
	"HTTP/2 (TLS)":   {true, func(p *http.Protocols) { p.SetHTTP2(true) }},
}

// ask starts a server for h and asks it for an answer, over a connection that over makes of a slow one.
func (sp speaker) ask(t *testing.T, o Options, h http.Handler, over func(net.Conn) net.Conn) (*http.Response, error) {
	var s *Server
	scheme := "http://"
	o.H2C = true
	if sp.secure {
		scheme = "https://"
		s, _ = startTLS(t, o, h, "a.test")
	} else {
		s = start(t, o, h)
	}
	tr := &http.Transport{
		Protocols:       new(http.Protocols),
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // a test's own server
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			c, err := dialSlow(s)
			if err != nil {
				return nil, err
			}
			return over(c), nil
		},
	}
	sp.set(tr.Protocols)
	t.Cleanup(tr.CloseIdleConnections)
	return (&http.Client{Transport: tr, Timeout: patience}).Get(scheme + s.Addrs()[0].String())
}

// A client that takes a little all the time gets everything, whatever it speaks.
func TestSipperIsNotCut(t *testing.T) {
	for name, sp := range speakers {
		for body, h := range bulkHandlers(t) {
			t.Run(name+" from "+body, func(t *testing.T) {
				t.Parallel()
				resp, err := sp.ask(t, Options{WriteIdle: steadyLimit}, h, func(c net.Conn) net.Conn { return &sipper{Conn: c} })
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				got, err := io.ReadAll(resp.Body)
				if err != nil || !bytes.Equal(got, bulkBody()) {
					t.Errorf("%d bytes, %v; want all %d as they are", len(got), err, bulk)
				}
			})
		}
	}
}

// A client that takes a little of a hit all the time gets everything, wherever the loop sends it from.
func TestHitToSipper(t *testing.T) {
	for name, twin := range map[string]bool{"memory": false, "twin": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hits := &fixedHits{bodies: map[string][]byte{"/big": bulkBody()}, sent: make(chan string, 1)}
			s := hitServer(t, Options{WriteIdle: steadyLimit}, hits)
			if twin {
				s.twins.make(hits.bodies["/big"])
			}
			c, err := dialSlow(s)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			send(t, c, "GET /big HTTP/1.1\r\n"+host+"\r\n")
			wantWholeHit(t, hits, &sipper{Conn: c})
		})
	}
}

// staller is a client's connection whose reader takes some and then no more until it is closed.
type staller struct {
	net.Conn
	n      int
	closed chan struct{}
	once   sync.Once
}

func (s *staller) Read(b []byte) (int, error) {
	if s.n > 64<<10 {
		<-s.closed
	}
	n, err := s.Conn.Read(b)
	s.n += n
	return n, err
}

func (s *staller) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.Conn.Close()
}

// A client that stops taking anything is cut, whatever it speaks, and not before the limit.
func TestStallerIsCut(t *testing.T) {
	for name, sp := range speakers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			took := make(chan time.Duration, 1)
			h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				began := time.Now()
				if _, err := w.Write(bulkBody()); err == nil {
					t.Error("the whole body went out")
				}
				took <- time.Since(began)
			})
			resp, err := sp.ask(t, Options{WriteIdle: steadyLimit}, h, func(c net.Conn) net.Conn {
				return &staller{Conn: c, closed: make(chan struct{})}
			})
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			select {
			case d := <-took:
				t.Logf("cut after %.2f of the limit", float64(d)/float64(steadyLimit))
				if d < steadyLimit {
					t.Errorf("cut after %v, before the limit of %v", d, steadyLimit)
				}
			case <-time.After(patience):
				t.Error("a client that takes nothing holds its handler")
			}
		})
	}
}
