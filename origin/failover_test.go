package origin

import (
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// pair is a pool of two scripted URLs and the number of connections to each.
func pair(t *testing.T, cfg Config, one, two func(net.Conn)) (p *Pool, first, second *atomic.Int64) {
	first, second = new(atomic.Int64), new(atomic.Int64)
	n := network{}
	if one != nil {
		n["192.0.2.1:80"] = counting(first, one)
	}
	if two != nil {
		n["192.0.2.2:80"] = counting(second, two)
	}
	cfg.Dial = n.dial
	return newPool(t, cfg, "http://192.0.2.1", "http://192.0.2.2"), first, second
}

// vanish closes at once after the request's first bytes.
func vanish(c net.Conn) { c.Read(make([]byte, 1<<16)) }

func TestRoundRobin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, _ := pair(t, Config{}, answers(ok200, nil), answers(ok200, nil))
		for range 10 {
			fetch(t, p, inbound("GET", "/", nil))
		}
		for _, s := range p.Status() {
			if s.Exchanges != 5 || s.Connections != 1 {
				t.Errorf("%s: %d exchanges over %d connections, want 5 over 1", s.URL, s.Exchanges, s.Connections)
			}
		}
	})
}

func TestFailover(t *testing.T) {
	for name, tt := range map[string]struct {
		method string
		body   string
		broken func(net.Conn) // nil refuses
		class  Class          // ClassUnknown: answered by the other URL
	}{
		"GET refused":               {"GET", "", nil, ClassUnknown},
		"GET reset":                 {"GET", "", vanish, ClassUnknown},
		"HEAD reset":                {"HEAD", "", vanish, ClassUnknown},
		"OPTIONS reset":             {"OPTIONS", "", vanish, ClassUnknown},
		"GET with content reset":    {"GET", "x", vanish, ClassReset},
		"POST refused":              {"POST", "x", nil, ClassUnknown},
		"POST reset":                {"POST", "x", vanish, ClassReset},
		"POST without body reset":   {"POST", "", vanish, ClassReset},
		"DELETE reset":              {"DELETE", "", vanish, ClassReset},
		"GET silent":                {"GET", "", hang, ClassHeaderTimeout},
		"GET answered with rubbish": {"GET", "", answers("rubbish\r\n\r\n", hang), ClassProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got atomic.Pointer[string]
				echo := func(c net.Conn) {
					b := make([]byte, 1<<16)
					n, _ := c.Read(b)
					for tt.body != "" && !strings.HasSuffix(string(b[:n]), "0\r\n\r\n") {
						m, _ := c.Read(b[n:])
						n += m
					}
					s := string(b[:n])
					got.Store(&s)
					io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				}
				p, _, _ := pair(t, Config{}, echo, tt.broken)
				var body io.Reader
				if tt.body != "" {
					body = io.NopCloser(strings.NewReader(tt.body))
				}
				r := inbound(tt.method, "/", body)
				resp, err := roundTrip(p, r) // the second URL is first in turn
				if tt.class != ClassUnknown {
					if classOf(t, err) != tt.class || got.Load() != nil {
						t.Errorf("got %v, the other URL got %v", err, got.Load())
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if s := *got.Load(); !strings.HasPrefix(s, tt.method+" / ") || !strings.Contains(s, tt.body) {
					t.Errorf("the other URL got %q", s)
				}
				if s := p.Status(); s[1].Fails != 1 || s[0].Fails != 0 {
					t.Errorf("status %+v", s)
				}
			})
		})
	}
}

func TestFailoverEndsWithTheURLs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, first, second := pair(t, Config{}, vanish, vanish)
		body := &closing{Reader: strings.NewReader("")}
		r := inbound("GET", "/", nil)
		err, _ := failedHead(t, p, r)
		if err.Class != ClassReset || first.Load() != 1 || second.Load() != 1 {
			t.Errorf("%v after %d and %d tries", err, first.Load(), second.Load())
		}
		p2 := newPool(t, Config{Dial: network{}.dial}, "http://192.0.2.1", "http://192.0.2.2", "http://192.0.2.3")
		r = inbound("POST", "/", body)
		if err, _ := failedHead(t, p2, r); err.Class != ClassConnect || !body.closed.Load() {
			t.Errorf("%v; request body closed: %v", err, body.closed.Load())
		}
		for _, s := range p2.Status() {
			if s.Exchanges != 1 {
				t.Errorf("%s: %d tries", s.URL, s.Exchanges)
			}
		}
	})
}

// TestHealth walks one URL of two through down, a probe that fails, a probe that its caller leaves, and a probe that succeeds.
func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var behaviour atomic.Pointer[func(net.Conn)]
		set := func(f func(net.Conn)) { behaviour.Store(&f) }
		set(vanish)
		p, broken, _ := pair(t, Config{}, func(c net.Conn) { (*behaviour.Load())(c) }, answers(ok200, nil))
		gets := func(n int) {
			t.Helper()
			for range n {
				fetch(t, p, inbound("GET", "/", nil))
			}
		}
		expect := func(tries int64, down bool) {
			t.Helper()
			if s := p.Status()[0]; broken.Load() != tries || s.Down != down {
				t.Errorf("%d tries, want %d; down %v, want %v (until %v)", broken.Load(), tries, s.Down, down, s.DownUntil)
			}
		}
		gets(5)
		expect(2, false)
		gets(2)
		expect(3, true) // the third failure in a row
		if until := p.Status()[0].DownUntil; !until.Equal(time.Now().Add(DefaultFailFor)) {
			t.Errorf("down until %v, now %v", until, time.Now())
		}
		gets(10)
		expect(3, true)
		time.Sleep(DefaultFailFor)
		gets(10)
		expect(4, true) // one probe, which failed

		time.Sleep(DefaultFailFor)
		set(hang)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range 2 { // one of the two is the probe
			if resp, err := roundTrip(p, inbound("GET", "/", nil).WithContext(ctx)); err == nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}
		expect(5, true)
		set(answers(ok200, nil))
		gets(2) // no need to wait: the probe proved nothing
		expect(6, false)
		gets(10)
		if s := p.Status()[0]; s.Fails != 0 || broken.Load() != 6 {
			t.Errorf("status %+v", s)
		}
	})
}

func TestHealthAllDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, first, second := pair(t, Config{Health: Health{MaxFails: 1}}, vanish, vanish)
		for range 3 {
			failedHead(t, p, inbound("GET", "/", nil))
		}
		if first.Load() != 3 || second.Load() != 3 {
			t.Errorf("%d and %d tries, want 3 and 3: down URLs are better than none", first.Load(), second.Load())
		}
	})
}

// TestHealthBodies: a URL whose heads come and whose bodies break is down all the same.
func TestHealthBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		short := answers("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", func(net.Conn) {})
		p, first, _ := pair(t, Config{}, short, answers(ok200, nil))
		for range 12 {
			resp, err := roundTrip(p, inbound("GET", "/", nil))
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		if first.Load() != 3 || !p.Status()[0].Down {
			t.Errorf("%d tries, status %+v", first.Load(), p.Status()[0])
		}
	})
}

func TestHealthGatewayErrors(t *testing.T) {
	for _, on := range []bool{false, true} {
		for _, status := range []string{"502 x", "503 x", "504 x", "500 x"} {
			synctest.Test(t, func(t *testing.T) {
				sick := answers("HTTP/1.1 "+status+"\r\nContent-Length: 1\r\n\r\nx", nil)
				p, _, _ := pair(t, Config{Health: Health{GatewayErrors: on}}, sick, answers(ok200, nil))
				for range 12 {
					fetch(t, p, inbound("GET", "/", nil))
				}
				want := uint64(6)
				if on && status != "500 x" {
					want = 3
				}
				if s := p.Status()[0]; s.Exchanges != want || s.Down != (want == 3) {
					t.Errorf("counted %v, status %s: %d exchanges, want %d", on, status, s.Exchanges, want)
				}
			})
		}
	}
}

func TestHealthOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, first, _ := pair(t, Config{Health: Health{MaxFails: -1}}, vanish, answers(ok200, nil))
		for range 20 {
			fetch(t, p, inbound("GET", "/", nil))
		}
		if first.Load() != 10 || p.Status()[0].Down {
			t.Errorf("%d tries, want 10", first.Load())
		}
	})
}
