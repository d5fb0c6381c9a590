package server

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// countedDeadlines counts how often a connection's write deadline is set.
type countedDeadlines struct {
	net.Conn
	set int
}

func (c *countedDeadlines) SetWriteDeadline(t time.Time) error {
	c.set++
	return c.Conn.SetWriteDeadline(t)
}

const linkLimit = 16 * time.Second

// limitedLink is a tlsLink of which take takes a byte.
func limitedLink(t *testing.T) (l *tlsLink, inner *countedDeadlines, take func()) {
	client, server := net.Pipe()
	t.Cleanup(func() { _ = client.Close() })
	inner = &countedDeadlines{Conn: server}
	return &tlsLink{link: link{Conn: inner}, idle: linkLimit}, inner, func() { _, _ = client.Read(make([]byte, 1)) }
}

// timed writes s and says how long that took.
func timed(l *tlsLink, s string) (n int, took time.Duration, err error) {
	began := time.Now()
	n, err = l.Write([]byte(s))
	return n, time.Since(began), err
}

// The idle limit costs next to nothing while writes do not wait, and one that has passed is none of the next write's.
func TestTLSLinkMovesDeadlinesSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, inner, take := limitedLink(t)
		for range 100 {
			go take()
			if _, _, err := timed(l, "x"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(linkLimit / 400)
		}
		if inner.set < 2 || inner.set > 6 {
			t.Errorf("the deadline was set %d times in 100 writes within a quarter of the limit, want it moved after a quarter of that", inner.set)
		}
		time.Sleep(2 * linkLimit)
		go take()
		if _, _, err := timed(l, "x"); err != nil {
			t.Error(err)
		}
	})
}

func TestTLSLinkStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _, take := limitedLink(t)
		go take()
		_, _, _ = timed(l, "x")
		time.Sleep(linkLimit / looks / 5) // the deadline stays
		if n, took, err := timed(l, "x"); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || took < linkLimit || took > linkLimit+linkLimit/looks {
			t.Errorf("a write that nobody takes: %d bytes, %v after %v", n, err, took)
		}
		if _, took, err := timed(l, "x"); !errors.Is(err, os.ErrDeadlineExceeded) || took != 0 {
			t.Errorf("a write behind one that failed: %v after %v", err, took)
		}
	})
}

// A write goes on for as long as the client takes a byte within the limit.
func TestTLSLinkProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _, take := limitedLink(t)
		go func() {
			for range 5 {
				time.Sleep(linkLimit - 1)
				take()
			}
		}()
		if n, took, err := timed(l, "12345"); n != 5 || err != nil || took != 5*(linkLimit-1) {
			t.Errorf("%d bytes, %v after %v; want all", n, err, took)
		}
	})
}

// A deadline that somebody sets is exact, whether the client takes bytes or not; the idle limit holds beside it.
func TestTLSLinkUserDeadline(t *testing.T) {
	in := func(d time.Duration) time.Time { return time.Now().Add(d) }
	for name, tc := range map[string]struct {
		set      func(l *tlsLink)
		min, max time.Duration
	}{
		"before":     {func(l *tlsLink) { _ = l.SetWriteDeadline(in(time.Second)) }, time.Second, time.Second},
		"later":      {func(l *tlsLink) { _ = l.SetWriteDeadline(in(linkLimit - 1)) }, linkLimit - 1, linkLimit - 1},
		"much later": {func(l *tlsLink) { _ = l.SetWriteDeadline(in(time.Hour)) }, linkLimit, linkLimit + linkLimit/looks},
		"past":       {func(l *tlsLink) { _ = l.SetWriteDeadline(time.Unix(1, 0)) }, 0, 0},
		"during":     {func(l *tlsLink) { time.AfterFunc(time.Second, func() { _ = l.SetWriteDeadline(time.Unix(1, 0)) }) }, time.Second, time.Second},
		"removed": {func(l *tlsLink) {
			_ = l.SetWriteDeadline(in(2 * time.Second))
			time.AfterFunc(time.Second, func() { _ = l.SetWriteDeadline(time.Time{}) })
		}, linkLimit, 2 * linkLimit},
		"closed": {func(l *tlsLink) { time.AfterFunc(time.Second, func() { _ = l.link.Conn.Close() }) }, time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, _, _ := limitedLink(t)
				tc.set(l)
				if _, took, err := timed(l, "x"); err == nil || took < tc.min || took > tc.max {
					t.Errorf("%v after %v, want an error after %v to %v", err, took, tc.min, tc.max)
				}
			})
		})
	}
}
