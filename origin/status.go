package origin

import "time"

// Target is one URL's state at one instant, for the admin API and metrics.
type Target struct {
	// URL is scheme://host:port.
	URL string
	// Down means that requests pass it over until DownUntil, if there is another URL.
	Down bool
	// DownUntil is when it will be tried again; zero when it is up.
	DownUntil time.Time
	// Fails is how many failures came in a row.
	Fails int
	// InFlight is how many exchanges are running, up to the close of their bodies; Connections how many connections are open.
	InFlight, Connections int
	// Exchanges counts tries since New; Failures those that failed, by class.
	Exchanges uint64
	Failures  [NumClasses]uint64
	// LastFailure is the last one that was the origin's fault; nil if there was none.
	LastFailure *Failure
}

// Failure is a failed exchange.
type Failure struct {
	// At is when it failed.
	At time.Time
	// Class and Err say what happened.
	Class Class
	Err   error

	after time.Duration // since the pool's epoch; Status makes At of it
}

// Status returns a snapshot of every URL in the order of Config.URLs. The caller owns it.
func (p *Pool) Status() []Target {
	out := make([]Target, len(p.targets))
	for i, t := range p.targets {
		out[i] = p.statusOf(t)
	}
	return out
}

func (p *Pool) statusOf(t *target) Target {
	s := Target{
		URL:         t.name,
		Fails:       int(t.health.fails.Load()),
		InFlight:    int(t.inFlight.Load()),
		Connections: t.open.size(),
		Exchanges:   t.exchanges.Load(),
	}
	if until := t.health.downUntil.Load(); until != 0 {
		s.Down, s.DownUntil = true, p.epoch.Add(time.Duration(until))
	}
	for c := range s.Failures {
		s.Failures[c] = t.failures[c].Load()
	}
	if last := t.lastError.Load(); last != nil {
		s.LastFailure = &Failure{At: p.epoch.Add(last.after), Class: last.Class, Err: last.Err}
	}
	return s
}
