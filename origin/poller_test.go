package origin

import (
	"io"
	"net"
	"runtime"
	"testing"
	"time"
)

// resting is the CPU time of a process that does nothing.
func resting() (time.Duration, bool) { return 0, true }

func TestPollerLearns(t *testing.T) {
	const soon, late = pollFor / 2, 2 * pollFor
	type exchange struct{ took, polled time.Duration }
	several := func(n int, e exchange) []exchange {
		var list []exchange
		for range n {
			list = append(list, e)
		}
		return list
	}
	vain := exchange{late, pollFor}
	for name, c := range map[string]struct {
		before []exchange
		may    bool
	}{
		"nothing known":             {nil, false},
		"not enough":                {several(soonFirst-1, exchange{took: soon}), false},
		"near":                      {several(soonFirst, exchange{took: soon}), true},
		"late once":                 {append(several(soonFirst, exchange{took: soon}), exchange{took: late}), false},
		"a vain poll":               {append([]exchange{vain}, several(soonFirst, exchange{took: soon})...), false},
		"after a vain poll":         {append([]exchange{vain}, several(2*soonFirst, exchange{took: soon})...), true},
		"mostly vain":               {append(several(100, vain), several(soonMost-1, exchange{took: soon})...), false},
		"mostly vain, at last":      {append(several(100, vain), several(soonMost, exchange{took: soon})...), true},
		"a good poll makes up":      {append([]exchange{vain, {soon, soon}, {took: late}}, several(soonFirst, exchange{took: soon})...), true},
		"late without a poll only":  {append(several(100, exchange{took: late}), several(soonFirst, exchange{took: soon})...), true},
		"good polls, then a vain":   {append(several(100, exchange{soon, soon}), vain), false},
		"good polls after a vain":   {append([]exchange{vain}, several(2*soonFirst, exchange{soon, soon})...), true},
		"good polls, and one again": {several(100, exchange{soon, soon}), true},
	} {
		p := &poller{cpu: resting}
		for _, e := range c.before {
			p.learn(e.took, e.polled)
		}
		if may := p.may(time.Now()); may != c.may {
			t.Errorf("%s: may poll %v, want %v", name, may, c.may)
		}
	}
}

// TestPollerHeedsLoad: only what others use of the CPU counts, in the span since the last look.
func TestPollerHeedsLoad(t *testing.T) {
	used, known := time.Duration(0), true
	p := &poller{cpu: func() (time.Duration, bool) { return used, known }, soon: soonFirst}
	now := time.Now()
	check := func(what string, may bool) {
		t.Helper()
		if got := p.may(now); got != may {
			t.Errorf("%s: may poll %v, want %v", what, got, may)
		}
	}
	procs := time.Duration(runtime.GOMAXPROCS(0))
	pass := func(span time.Duration, percent time.Duration) {
		now = now.Add(span)
		used += procs * span * percent / 100
	}
	check("first look", true)
	pass(10*loadSpan, 60)
	check("some load", true)
	pass(10*loadSpan, 70)
	check("much load", false)
	pass(loadSpan/2, 0)
	check("no other look so soon", false)
	pass(loadSpan, 0)
	check("rest", true)
	p.learn(pollFor/2, procs*2*loadSpan)
	pass(10*loadSpan, 80)
	check("much, of which a quarter was polling", true)
	known = false
	pass(loadSpan, 0)
	check("load unknown", false)
}

// TestPollsAlone: an exchange polls for as long as that may help, and only if it is alone with its URL.
func TestPollsAlone(t *testing.T) {
	if !canSwap {
		t.Skip("no socket can be polled here")
	}
	for name, c := range map[string]struct {
		others int64
		soon   int
		polls  bool
	}{
		"alone":       {0, soonFirst, true},
		"not alone":   {1, soonFirst, false},
		"not so near": {0, soonFirst - 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			goOn := make(chan struct{})
			p, _ := plainOrigin(t, Config{}, talk(func(n int, c net.Conn) bool {
				if n == 2 {
					<-goOn
				}
				io.WriteString(c, ok200)
				return true
			}))
			target := p.targets[0]
			poller := &target.plain.poller
			poller.cpu, poller.soon = resting, c.soon
			target.inFlight.Add(c.others)
			_, rest, err := within(t, p, 5*time.Millisecond)
			close(goOn)
			if rest == nil {
				t.Fatalf("no rest is left, error %v", err)
			}
			if polled := poller.polled >= pollFor; polled != c.polls {
				t.Errorf("polled for %v, want it to poll: %v", poller.polled, c.polls)
			}
			resp, err := rest(t.Context())
			wantAnswer(t, resp, err, "ok")
			target.inFlight.Add(-c.others)
			wantIdle(t, p)
		})
	}
}

// TestPollsAgain: exchanges that poll give what others give.
func TestPollsAgain(t *testing.T) {
	p, conns := plainOrigin(t, Config{}, alwaysOK)
	poller := &p.targets[0].plain.poller
	poller.cpu = resting
	for range 100 {
		poller.soon = soonMost
		wantWhole(t, p)
	}
	if conns.Load() != 1 {
		t.Errorf("%d connections, want 1", conns.Load())
	}
}
