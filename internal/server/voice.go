package server

import (
	"bytes"
	"log"
	"net"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// voice writes the server's log lines, at most voiceLines a second whatever clients do. Safe for concurrent use.
type voice struct {
	logger zerolog.Logger

	mu         sync.Mutex // guards following
	since      time.Time
	said, held int
}

const voiceLines = 10

func newVoice(l zerolog.Logger) *voice { return &voice{logger: l} }

// allow tells whether a line may be written now, and how many were dropped since the last one that was.
func (v *voice) allow(now time.Time) (dropped int, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if now.Sub(v.since) >= time.Second {
		v.since, v.said = now, 0
	}
	if v.said++; v.said > voiceLines {
		v.held++
		return 0, false
	}
	dropped, v.held = v.held, 0
	return dropped, true
}

func (v *voice) line(e *zerolog.Event) *zerolog.Event {
	if e == nil {
		return nil
	}
	dropped, ok := v.allow(time.Now())
	if !ok {
		return e.Discard()
	}
	if dropped > 0 {
		e = e.Int("lines_dropped", dropped)
	}
	return e
}

func (v *voice) warn(err error, msg string) { v.line(v.logger.Warn()).Err(err).Msg(msg) }

func (v *voice) debug(err error, msg string, peer net.Addr) {
	v.line(v.logger.Debug()).Err(err).Stringer("peer", peer).Msg(msg)
}

func (s *Server) refused(r refusal, peer net.Addr) {
	s.stats.refused[r].Add(1)
	s.say.line(s.say.logger.Debug()).Str("reason", r.String()).Stringer("peer", peer).Msg("request refused")
}

// standard returns the logger that net/http writes to.
func (v *voice) standard() *log.Logger { return log.New(v, "", 0) }

// Write takes one message of net/http: a handler's panic is an error, the rest are warnings.
func (v *voice) Write(p []byte) (int, error) {
	msg := string(bytes.TrimSpace(p))
	e := v.logger.Warn()
	if bytes.Contains(p, []byte("panic serving")) {
		e = v.logger.Error()
	}
	v.line(e).Msg(msg)
	return len(p), nil
}
