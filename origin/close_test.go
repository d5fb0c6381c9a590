package origin

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// held makes an exchange whose body ends after a minute.
func held(t *testing.T) (*Pool, io.ReadCloser) {
	t.Helper()
	late := func(c net.Conn) {
		time.Sleep(time.Minute)
		io.WriteString(c, "abc")
	}
	p := newPool(t, Config{Dial: only(answers("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", late)).dial, Timeouts: Timeouts{IdleBody: -1}}, onlyURL)
	resp, err := roundTrip(p, inbound("GET", "/", nil))
	if err != nil {
		t.Fatal(err)
	}
	return p, resp.Body
}

func TestCloseWaitsForBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, body := held(t)
		start := time.Now()
		closed := make(chan error)
		go func() { closed <- p.Close(context.Background()) }()
		synctest.Wait()
		err, _ := failedHead(t, p, inbound("GET", "/", nil))
		if err.Class != ClassClosed || !errors.Is(err, ErrClosed) {
			t.Errorf("new exchange: %v", err)
		}
		if b, err := io.ReadAll(body); string(b) != "abc" || err != nil {
			t.Errorf("the running exchange: %q, %v", b, err)
		}
		if err := <-closed; err != nil || time.Since(start) != time.Minute {
			t.Errorf("Close: %v after %v", err, time.Since(start))
		}
		body.Close()
		if s := p.Status()[0]; s.Connections != 0 || s.InFlight != 0 {
			t.Errorf("status %+v", s)
		}
	})
}

func TestCloseCutsAtItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, body := held(t)
		start := time.Now()
		enough := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, enough)
		defer cancel()
		read := make(chan error)
		go func() {
			_, err := io.ReadAll(body)
			read <- err
			body.Close()
		}()
		if err := p.Close(ctx); !errors.Is(err, enough) || time.Since(start) != time.Second {
			t.Errorf("Close: %v after %v", err, time.Since(start))
		}
		if err := <-read; classOf(t, err) == ClassUnknown {
			t.Errorf("body: %v", err)
		}
		if s := p.Status()[0]; s.Connections != 0 {
			t.Errorf("status %+v", s)
		}
		time.Sleep(time.Minute)
	})
}

func TestCloseTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, Config{Dial: only(answers(ok200, nil)).dial}, onlyURL)
		fetch(t, p, inbound("GET", "/", nil))
		for range 2 {
			if err := p.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestUnreadBody: closing early frees the exchange and says nothing about the origin.
func TestUnreadBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, Config{Dial: only(answers("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", hang)).dial}, onlyURL)
		resp, err := roundTrip(p, inbound("GET", "/", nil))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		resp.Body.Close()
		if _, err := resp.Body.Read(make([]byte, 1)); classOf(t, err) != ClassCanceled {
			t.Errorf("read after close: %v", err)
		}
		synctest.Wait()
		if s := p.Status()[0]; s.InFlight != 0 || s.Fails != 0 || s.Connections != 0 {
			t.Errorf("status %+v", s)
		}
	})
}
