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

// A deadline for each write costs next to nothing, and still ends the write that meets it, in time.
func TestTLSLinkDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 10 * time.Second
		client, server := net.Pipe()
		defer client.Close()
		inner := &countedDeadlines{Conn: server}
		l := &tlsLink{link: link{Conn: inner}}
		write := func() (time.Duration, error) {
			began := time.Now()
			_ = l.SetWriteDeadline(began.Add(limit))
			_, err := l.Write([]byte("x"))
			_ = l.SetWriteDeadline(time.Time{})
			return time.Since(began), err
		}
		taken := make(chan struct{})
		go func() {
			for range taken {
				_, _ = client.Read(make([]byte, 1))
			}
		}()
		for range 100 {
			taken <- struct{}{}
			if _, err := write(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second / 10)
		}
		if inner.set < 2 || inner.set > 6 {
			t.Errorf("the deadline was set %d times in 100 writes of 10 seconds, want it moved when a quarter has passed", inner.set)
		}
		time.Sleep(2 * limit) // one that has passed is none of the next write's
		taken <- struct{}{}
		if _, err := write(); err != nil {
			t.Error(err)
		}
		time.Sleep(limit / 5)
		if took, err := write(); !errors.Is(err, os.ErrDeadlineExceeded) || took < limit*3/4 || took > limit {
			t.Errorf("a write that nobody takes: %v after %v", err, took)
		}
		taken <- struct{}{}
		if _, err := l.Write([]byte("x")); err != nil {
			t.Errorf("a write without a deadline: %v", err)
		}
		close(taken)
		time.AfterFunc(time.Second, func() { _ = l.SetWriteDeadline(time.Unix(1, 0)) })
		if took, err := write(); !errors.Is(err, os.ErrDeadlineExceeded) || took != time.Second {
			t.Errorf("a write under way when its deadline came nearer: %v after %v", err, took)
		}
	})
}
