package server

import (
	"sync/atomic"
)

// counters are the server's own numbers.
type counters struct {
	accepted, handshakes, hits atomic.Int64
	refused                    [numRefusals]atomic.Int64
}

// Stats are a server's counters since its start and its gauges now.
type Stats struct {
	// Accepted counts connections, Open is how many there are now.
	Accepted, Open int64
	// Hits counts requests answered on the hit path.
	Hits int64
	// FailedHandshakes counts TLS handshakes that came to nothing.
	FailedHandshakes int64
	// Refused counts requests turned down before any handler saw them, by reason.
	Refused map[string]int64
}

// Stats returns the present numbers.
func (s *Server) Stats() Stats {
	out := Stats{
		Accepted:         s.stats.accepted.Load(),
		Open:             int64(s.links.count()),
		Hits:             s.stats.hits.Load(),
		FailedHandshakes: s.stats.handshakes.Load(),
		Refused:          make(map[string]int64, numRefusals),
	}
	for r := refusalNone + 1; r < numRefusals; r++ {
		out.Refused[r.String()] = s.stats.refused[r].Load()
	}
	return out
}
