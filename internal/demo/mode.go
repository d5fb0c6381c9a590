package demo

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Mode is how the origin behaves. A closed enum.
type Mode uint8

const (
	// ModeUnknown is the zero value and never in force.
	ModeUnknown Mode = iota
	// ModeHealthy answers, slowly.
	ModeHealthy
	// ModeFailing answers 503.
	ModeFailing
	// ModeHanging accepts requests and says nothing.
	ModeHanging
)

// String returns "healthy", "failing" or "hanging".
func (m Mode) String() string {
	switch m {
	case ModeHealthy:
		return "healthy"
	case ModeFailing:
		return "failing"
	case ModeHanging:
		return "hanging"
	default:
		return "unknown"
	}
}

// switches hold the mode. Safe for concurrent use.
type switches struct {
	mu    sync.Mutex // guards following
	mode  Mode
	until time.Time     // when the mode ends by itself; zero for never
	ended chan struct{} // closed when the mode changes
}

func newSwitches() *switches { return &switches{mode: ModeHealthy, ended: make(chan struct{})} }

// set puts a mode into force, for a while or, with 0, until the next.
func (s *switches) set(m Mode, during time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mode, s.until = m, time.Time{}
	if during > 0 {
		s.until = time.Now().Add(during)
	}
	close(s.ended)
	s.ended = make(chan struct{})
}

// get returns the mode, when it ends by itself (zero: never), and what is closed when somebody changes it.
func (s *switches) get() (m Mode, until time.Time, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.until.IsZero() && !time.Now().Before(s.until) {
		s.mode, s.until = ModeHealthy, time.Time{}
	}
	return s.mode, s.until, s.ended
}

// hang blocks while the origin hangs. It returns false when ctx ended first.
func (s *switches) hang(ctx context.Context) bool {
	for {
		mode, until, changed := s.get()
		if mode != ModeHanging {
			return true
		}
		var timer <-chan time.Time
		if !until.IsZero() {
			timer = time.After(time.Until(until))
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		case <-timer:
		}
	}
}

// serve answers requests below /_origin/, by any method so that a link and curl both do.
func (s *switches) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "text/plain; charset=utf-8")
	during, err := duration(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch strings.TrimPrefix(r.URL.Path, controlPath) {
	case "fail":
		s.set(ModeFailing, during)
	case "hang":
		s.set(ModeHanging, during)
	case "recover":
		s.set(ModeHealthy, 0)
	case "state":
	default:
		http.Error(w, "switches: fail, hang (both with ?for=10s), recover, state", http.StatusNotFound)
		return
	}
	fmt.Fprintln(w, s.describe())
}

// duration reads ?for=10s; 0 means until told otherwise.
func duration(r *http.Request) (time.Duration, error) {
	text := r.URL.Query().Get("for")
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("for=%s: write a duration such as 10s", text)
	}
	return d, nil
}

func (s *switches) describe() string {
	mode, until, _ := s.get()
	if until.IsZero() {
		return "the origin is " + mode.String()
	}
	return fmt.Sprintf("the origin is %s until %s", mode, until.Format("15:04:05"))
}

// pause waits for d; false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
