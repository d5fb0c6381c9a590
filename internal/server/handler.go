package server

import (
	"net/http"
)

// serveHTTP is what net/http calls: the checks that hold for every protocol, then the handler.
func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if !validHost(r.Host, r.ProtoMajor == 1 && r.ProtoMinor == 0) {
		s.stats.refused[refusalHost].Add(1)
		w.Header().Set("Connection", "close")
		http.Error(w, refusals[refusalHost].text, http.StatusBadRequest)
		return
	}
	if s.draining.Load() {
		w.Header().Set("Connection", "close") // on HTTP/2 net/http makes a GOAWAY of it
	}
	if r.ProtoMajor == 2 {
		_ = growStack()
		g := s.guard(w, r)
		defer g.stop()
		w = g
	}
	s.handler.ServeHTTP(w, r)
}
