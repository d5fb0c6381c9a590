package server

import (
	"sync"
	"time"
)

// tlsLink is a link under TLS. HTTP/2 in net/http gives each write a deadline and takes it away again, and each time Go's poller would move a timer;
// this one leaves a deadline where it is until a write would have noticeably less time than it should. Safe for concurrent use.
type tlsLink struct {
	link

	mu      sync.Mutex // guards following
	writing int        // writes under way
	want    time.Time  // their deadline, as last set
	armed   time.Time  // the one that the connection has
}

// SetWriteDeadline bounds writes, also one that is under way.
func (l *tlsLink) SetWriteDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.want = t
	if l.writing == 0 {
		return nil
	}
	return l.armLocked()
}

// SetDeadline bounds reads and writes.
func (l *tlsLink) SetDeadline(t time.Time) error {
	if err := l.SetReadDeadline(t); err != nil {
		return err
	}
	return l.SetWriteDeadline(t)
}

// Write waits no longer than until the deadline, or a quarter of its time less.
func (l *tlsLink) Write(p []byte) (int, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	defer l.end()
	return l.link.Write(p)
}

func (l *tlsLink) begin() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writing++
	if l.armed.Equal(l.want) {
		return nil
	}
	if left := time.Until(l.want); !l.armed.IsZero() && !l.want.Before(l.armed) && l.want.Sub(l.armed) <= left/4 {
		return nil
	}
	return l.armLocked()
}

func (l *tlsLink) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writing--
}

func (l *tlsLink) armLocked() error {
	l.armed = l.want
	return l.link.SetWriteDeadline(l.want)
}
