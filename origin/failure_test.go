package origin

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestFailureBeforeHead(t *testing.T) {
	blocked := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	unknown := func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.DNSError{Err: "no such host", Name: "nowhere", IsNotFound: true}
	}
	for name, tt := range map[string]struct {
		dial   func(context.Context, string, string) (net.Conn, error)
		url    string
		class  Class
		status int
		after  time.Duration
	}{
		"refused":             {network{}.dial, onlyURL, ClassConnect, 502, 0},
		"no answer to SYN":    {blocked, onlyURL, ClassConnectTimeout, 504, DefaultConnectTimeout},
		"unknown name":        {unknown, onlyURL, ClassDNS, 502, 0},
		"silent handshake":    {network{"192.0.2.1:443": hang}.dial, "https://192.0.2.1", ClassTLS, 502, DefaultConnectTimeout},
		"plain HTTP on 443":   {network{"192.0.2.1:443": func(c net.Conn) { c.Read(make([]byte, 1<<16)); io.WriteString(c, ok200); hang(c) }}.dial, "https://192.0.2.1", ClassTLS, 502, 0},
		"no head":             {only(hang).dial, onlyURL, ClassHeaderTimeout, 504, DefaultHeaderTimeout},
		"half a head":         {only(answers("HTTP/1.1 200 OK\r\nContent-", hang)).dial, onlyURL, ClassHeaderTimeout, 504, DefaultHeaderTimeout},
		"closed without word": {only(answers("", func(net.Conn) {})).dial, onlyURL, ClassReset, 502, 0},
		"closed inside head":  {only(answers("HTTP/1.1 200 OK\r\nX: y\r\n", func(net.Conn) {})).dial, onlyURL, ClassReset, 502, 0},
		"closed inside line":  {only(answers("HTTP/1.1 200 OK\r\nX", func(net.Conn) {})).dial, onlyURL, ClassProtocol, 502, 0},
		"not HTTP":            {only(answers("SSH-2.0-x\r\n\r\n", hang)).dial, onlyURL, ClassProtocol, 502, 0},
		"two lengths":         {only(answers("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", hang)).dial, onlyURL, ClassProtocol, 502, 0},
		"head too large":      {only(answers("HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", maxResponseHead)+"\r\n\r\n", hang)).dial, onlyURL, ClassProtocol, 502, 0},
		"101 unasked":         {only(answers("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", hang)).dial, onlyURL, ClassProtocol, 502, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPool(t, Config{Dial: tt.dial}, tt.url)
				err, took := failedHead(t, p, inbound("GET", "/secret?token=1", nil))
				if err.Class != tt.class || err.Class.Status() != tt.status || took != tt.after {
					t.Errorf("class %v, status %d after %v, want %v, %d, %v (%v)", err.Class, err.Class.Status(), took, tt.class, tt.status, tt.after, err)
				}
				if err.URL != tt.url || strings.Contains(err.Error(), "secret") {
					t.Errorf("URL %q, text %q", err.URL, err)
				}
				if s := p.Status()[0]; s.Failures[tt.class] != 1 || s.Fails != 1 || s.InFlight != 0 || s.LastFailure.Class != tt.class {
					t.Errorf("status %+v", s)
				}
			})
		})
	}
}

func TestFailureInBody(t *testing.T) {
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	gone := func(net.Conn) {}
	drip := func(c net.Conn) {
		for range 3 {
			time.Sleep(20 * time.Second)
			io.WriteString(c, "x")
		}
		hang(c)
	}
	for name, tt := range map[string]struct {
		script func(net.Conn)
		class  Class
		after  time.Duration
	}{
		"RFC 9112 §8 Content-Length cut short": {answers("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", gone), ClassTruncated, 0},
		"RFC 9112 §8 no byte of the body":      {answers("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", gone), ClassTruncated, 0},
		"RFC 9112 §8 no last chunk":            {answers(chunked+"3\r\nabc\r\n", gone), ClassTruncated, 0},
		"RFC 9112 §8 inside a chunk":           {answers(chunked+"3\r\nab", gone), ClassTruncated, 0},
		"malformed chunk":                      {answers(chunked+"zz\r\nab", hang), ClassProtocol, 0},
		"silence at once":                      {answers("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", hang), ClassBodyTimeout, 30 * time.Second},
		"silence after slow bytes":             {answers("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", drip), ClassBodyTimeout, 90 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPool(t, Config{Dial: only(tt.script).dial}, onlyURL)
				err, took := failedBody(t, p, inbound("GET", "/", nil))
				if err.Class != tt.class || took != tt.after {
					t.Errorf("class %v after %v, want %v, %v (%v)", err.Class, took, tt.class, tt.after, err)
				}
				if got := errors.Is(err, io.ErrUnexpectedEOF); got != (tt.class == ClassTruncated) {
					t.Errorf("wraps io.ErrUnexpectedEOF: %v", got)
				}
				if s := p.Status()[0]; s.Failures[tt.class] != 1 || s.Fails != 1 || s.InFlight != 0 {
					t.Errorf("status %+v", s)
				}
			})
		})
	}
}

func TestSlowReaderIsNoSlowOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, Config{Dial: only(answers(ok200, nil)).dial}, onlyURL)
		resp, err := roundTrip(p, inbound("GET", "/", nil))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		one := make([]byte, 1)
		for range 2 {
			time.Sleep(time.Hour)
			if _, err := io.ReadFull(resp.Body, one); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestSilentStreamsAreExempt(t *testing.T) {
	for _, mediaType := range []string{"text/event-stream; charset=utf-8", "application/grpc+proto"} {
		synctest.Test(t, func(t *testing.T) {
			late := func(c net.Conn) {
				time.Sleep(time.Hour)
				io.WriteString(c, "1\r\nx\r\n0\r\n\r\n")
			}
			head := "HTTP/1.1 200 OK\r\nContent-Type: " + mediaType + "\r\nTransfer-Encoding: chunked\r\n\r\n"
			p := newPool(t, Config{Dial: only(answers(head, late)).dial}, onlyURL)
			if _, body := fetch(t, p, inbound("GET", "/", nil)); body != "x" {
				t.Errorf("%s: body %q", mediaType, body)
			}
		})
	}
}

func TestNegativeTimeoutsAreNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(c net.Conn) {
			time.Sleep(time.Hour)
			answers("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n", func(c net.Conn) {
				time.Sleep(time.Hour)
				io.WriteString(c, "x")
			})(c)
		}
		p := newPool(t, Config{Dial: only(slow).dial, Timeouts: Timeouts{Connect: -1, TLS: -1, Header: -1, IdleBody: -1}}, onlyURL)
		start := time.Now()
		fetch(t, p, inbound("GET", "/", nil))
		if took := time.Since(start); took != 2*time.Hour {
			t.Errorf("took %v", took)
		}
	})
}

// TestLCK22CallerGone: a caller who gives up is no failure of the origin, is not retried, and gets its own cause back.
func TestLCK22CallerGone(t *testing.T) {
	errMine := errors.New("mine")
	canceled := func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(100*time.Millisecond, cancel)
		return ctx, cancel
	}
	caused := func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancelCause(ctx)
		time.AfterFunc(100*time.Millisecond, func() { cancel(errMine) })
		return ctx, func() { cancel(nil) }
	}
	deadline := func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, 100*time.Millisecond)
	}
	for name, tt := range map[string]struct {
		limit func(context.Context) (context.Context, context.CancelFunc)
		class Class
		is    []error
	}{
		"canceled":            {canceled, ClassCanceled, []error{context.Canceled}},
		"canceled with cause": {caused, ClassCanceled, []error{context.Canceled, errMine}},
		"deadline":            {deadline, ClassDeadline, []error{context.DeadlineExceeded}},
	} {
		check := func(t *testing.T, p *Pool, err *Error, took time.Duration, tries *atomic.Int64) {
			t.Helper()
			if err.Class != tt.class || took != 100*time.Millisecond {
				t.Errorf("class %v after %v (%v)", err.Class, took, err)
			}
			for _, want := range tt.is {
				if !errors.Is(err, want) {
					t.Errorf("%v is not %v", err, want)
				}
			}
			if tries.Load() != 1 {
				t.Errorf("%d tries", tries.Load())
			}
			for _, s := range p.Status() {
				if s.Fails != 0 || s.LastFailure != nil {
					t.Errorf("held against the origin: %+v", s)
				}
			}
		}
		two := func(n *atomic.Int64, script func(net.Conn)) network {
			return network{"192.0.2.1:80": counting(n, script), "192.0.2.2:80": counting(n, script)}
		}
		t.Run(name+" before the head", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tries atomic.Int64
				p := newPool(t, Config{Dial: two(&tries, hang).dial}, onlyURL, "http://192.0.2.2")
				ctx, cancel := tt.limit(t.Context())
				defer cancel()
				err, took := failedHead(t, p, inbound("GET", "/", nil).WithContext(ctx))
				check(t, p, err, took, &tries)
			})
		})
		t.Run(name+" inside the body", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tries atomic.Int64
				script := answers("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", hang)
				p := newPool(t, Config{Dial: two(&tries, script).dial}, onlyURL, "http://192.0.2.2")
				ctx, cancel := tt.limit(t.Context())
				defer cancel()
				err, took := failedBody(t, p, inbound("GET", "/", nil).WithContext(ctx))
				check(t, p, err, took, &tries)
			})
		})
	}
}

func TestStalledUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stalls := func(c net.Conn) { // after the head
			http.ReadRequest(bufio.NewReader(c))
			<-t.Context().Done()
		}
		p := newPool(t, Config{Dial: only(stalls).dial}, onlyURL)
		body := &closing{Reader: strings.NewReader(strings.Repeat("x", 1<<20))}
		r := inbound("POST", "/", body)
		err, took := failedHead(t, p, r)
		if err.Class != ClassSendTimeout || took != 30*time.Second {
			t.Errorf("class %v after %v: %v", err.Class, took, err)
		}
		synctest.Wait()
		if !body.closed.Load() {
			t.Error("the request body was not closed")
		}
	})
}

// TestFailingUpload: the client's own body fails, which is no fault of the origin.
func TestFailingUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, Config{Dial: only(hang).dial}, onlyURL)
		tooLarge := &http.MaxBytesError{Limit: 3}
		r := inbound("POST", "/", io.MultiReader(strings.NewReader("abc"), failing{tooLarge}))
		err, _ := failedHead(t, p, r)
		if err.Class != ClassRequest || err.Class.Status() != 400 || !errors.Is(err, tooLarge) {
			t.Errorf("class %v: %v", err.Class, err)
		}
		if s := p.Status()[0]; s.Fails != 0 {
			t.Errorf("held against the origin: %+v", s)
		}
	})
}

func TestUnsendableRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, Config{Dial: only(answers(ok200, nil)).dial}, onlyURL)
		r := inbound("GET", "/", nil)
		r.Header["X-Bad"] = []string{"a\r\nb: c"}
		if err, _ := failedHead(t, p, r); err.Class != ClassRequest {
			t.Errorf("class %v: %v", err.Class, err)
		}
		r = inbound("POST", "/", strings.NewReader("abc"))
		r.ContentLength = 9
		if err, _ := failedHead(t, p, r); err.Class != ClassRequest {
			t.Errorf("class %v: %v", err.Class, err)
		}
		if s := p.Status()[0]; s.Fails != 0 {
			t.Errorf("held against the origin: %+v", s)
		}
	})
}

func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, Config{Dial: only(hang).dial, Pool: PoolConfig{MaxConns: 1}, Timeouts: Timeouts{Header: 10 * time.Second}}, onlyURL)
		first := make(chan *Error)
		ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		go func() {
			_, err := roundTrip(p, inbound("GET", "/", nil).WithContext(ctx))
			first <- err.(*Error)
		}()
		synctest.Wait()
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err, took := failedHead(t, p, inbound("GET", "/", nil).WithContext(impatient)); err.Class != ClassDeadline || took != time.Second {
			t.Errorf("class %v after %v: %v", err.Class, took, err)
		}
		if err := <-first; err.Class != ClassDeadline {
			t.Errorf("first: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		silent := answers("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", hang)
		p := newPool(t, Config{Dial: only(silent).dial, Pool: PoolConfig{MaxConns: 1}, Timeouts: Timeouts{Header: 10 * time.Second}}, onlyURL)
		resp, err := roundTrip(p, inbound("GET", "/", nil))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err, took := failedHead(t, p, inbound("GET", "/", nil)); err.Class != ClassBusy || took != 10*time.Second || err.Class.Status() != 503 {
			t.Errorf("class %v after %v: %v", err.Class, took, err)
		}
	})
}

// TestResetOnReusedConnection: the origin closes a kept connection while a request that may not be repeated is on its way.
func TestResetOnReusedConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		once := answers(ok200, func(c net.Conn) {
			if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil { // the next request
				io.Copy(io.Discard, r.Body)
			}
		})
		var dials atomic.Int64
		p := newPool(t, Config{Dial: only(counting(&dials, once)).dial}, onlyURL)
		fetch(t, p, inbound("POST", "/", strings.NewReader("abc")))
		synctest.Wait()
		err, _ := failedHead(t, p, inbound("POST", "/", strings.NewReader("abc")))
		if err.Class != ClassReset || dials.Load() != 1 {
			t.Errorf("class %v after %d dials: %v", err.Class, dials.Load(), err)
		}
		fetch(t, p, inbound("GET", "/", nil))
		synctest.Wait()
		fetch(t, p, inbound("GET", "/", nil)) // repeated on a new connection
		if dials.Load() != 3 {
			t.Errorf("%d dials, want 3", dials.Load())
		}
	})
}

func TestClassesAreComplete(t *testing.T) {
	words := map[string]bool{}
	for c := range NumClasses {
		if c.String() == "" || words[c.String()] || c.Status() < 400 {
			t.Errorf("class %d: %q, status %d", c, c, c.Status())
		}
		words[c.String()] = true
	}
	if ClassUnknown.OriginFault() || NumClasses.String() != "unknown" || NumClasses.Status() != 502 || NumClasses.OriginFault() {
		t.Error("values outside the enum must be unknown")
	}
}

func TestErrorText(t *testing.T) {
	err := &Error{Class: ClassTLS, URL: "https://a", Err: fmt.Errorf("handshake: %w", tls.AlertError(40))}
	if got := err.Error(); !strings.HasPrefix(got, "origin https://a: tls: handshake: ") {
		t.Error(got)
	}
	if got := (&Error{Class: ClassLoop}).Error(); got != "origin loop" {
		t.Error(got)
	}
	if !(&Error{Class: ClassDeadline}).Timeout() || (&Error{Class: ClassCanceled}).Timeout() || (&Error{Class: ClassReset}).Timeout() {
		t.Error("Timeout")
	}
}

// closing is a request body that notes its Close.
type closing struct {
	io.Reader
	closed atomic.Bool
}

func (c *closing) Close() error {
	c.closed.Store(true)
	return nil
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
