package server

import (
	"context"
	"fmt"
	"time"
)

// ErrCut says how many connections were still busy when Drain reached its limit and closed them.
type ErrCut struct {
	Connections int
}

// Error returns the sentence for the log.
func (e *ErrCut) Error() string {
	return fmt.Sprintf("server: drain limit reached, %d busy connections cut", e.Connections)
}

// Drain stops accepting, lets running requests finish, and ends every connection between two requests, telling its client with
// Connection: close or GOAWAY where it still can. What is busy after Options.DrainTimeout, or when ctx ends, is cut and
// reported as an [ErrCut]. Hijacked connections count as busy. When it returns, no goroutine of the server is left but those of handlers
// that do not return when their request's context ends.
//
// Readiness is the caller's: it should say "not ready" first, and wait as long as its balancers need to see that.
func (s *Server) Drain(ctx context.Context) error {
	if s.queue.addr == nil {
		return ErrNotStarted
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.DrainTimeout)
	defer cancel()
	s.draining.Store(true)
	s.stop()
	s.letGo(ctx)
	s.restless.Store(true)
	s.links.closeResting()
	_ = s.http.Shutdown(ctx) // its error is ctx's, which what is left open shows better
	select {
	case <-s.links.empty():
	case <-ctx.Done():
	}
	return s.end()
}

// Close ends everything at once.
func (s *Server) Close() error {
	s.draining.Store(true)
	s.stop()
	return s.end()
}

// stop ends accepting, once.
func (s *Server) stop() {
	s.stopOnce.Do(func() {
		close(s.stopping)
		s.stopAccepting()
	})
}

// letGo gives clients on resting connections the time to send what is on its way, so that they learn from an answer that the connection
// ends.
func (s *Server) letGo(ctx context.Context) {
	if s.o.DrainIdle == 0 {
		return
	}
	t := time.NewTimer(s.o.DrainIdle)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.links.empty():
	case <-ctx.Done():
	}
}

// end closes whatever is left.
func (s *Server) end() error {
	s.endLife()
	cut := s.links.count()
	_ = s.http.Close()
	_ = s.queue.Close()
	s.links.cut()
	s.serving.Wait()
	s.stopLoops()
	s.twins.close()
	if cut > 0 {
		return &ErrCut{Connections: cut}
	}
	return nil
}
