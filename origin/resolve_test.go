package origin

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestNameMoves: kept connections do not outlive the addresses that they were made for.
func TestNameMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		addrs := []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")}
		var lookups, dials atomic.Int64
		var lookupErr error
		proceed := make(chan struct{}) // a look-up ends after the exchange beside it
		cfg := Config{
			Dial: network{"app.test:80": counting(&dials, answers(ok200, nil))}.dial,
			Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
				lookups.Add(1)
				<-proceed
				if host != "app.test" {
					t.Errorf("looked up %q", host)
				}
				return addrs, lookupErr
			},
		}
		p := newPool(t, cfg, "http://app.test")
		get := func() {
			t.Helper()
			fetch(t, p, inbound("GET", "/", nil))
			select {
			case proceed <- struct{}{}:
			case <-time.After(time.Second):
			}
			synctest.Wait()
		}
		expect := func(what string, wantLookups, wantDials int64) {
			t.Helper()
			if lookups.Load() != wantLookups || dials.Load() != wantDials {
				t.Errorf("%s: %d look-ups and %d connections, want %d and %d", what, lookups.Load(), dials.Load(), wantLookups, wantDials)
			}
		}
		get()
		get()
		expect("within the interval", 1, 1)
		time.Sleep(DefaultResolveEvery)
		addrs = []netip.Addr{addrs[1], addrs[0]}
		get()
		get()
		expect("same addresses in another order", 2, 1)

		time.Sleep(DefaultResolveEvery)
		lookupErr = errors.New("server failure")
		get()
		get()
		expect("failed look-up", 3, 1)
		lookupErr = nil

		time.Sleep(DefaultResolveEvery)
		addrs = []netip.Addr{netip.MustParseAddr("192.0.2.3")}
		get()
		if n := p.Status()[0].Connections; n != 0 {
			t.Errorf("%d connections are left to the old address", n)
		}
		get()
		expect("moved", 4, 2)

		time.Sleep(10 * DefaultResolveEvery)
		expect("unused", 4, 2)
	})
}

// TestNameMovesUnderUse: a connection in use when the name moves is not used again.
func TestNameMovesUnderUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		addr := netip.MustParseAddr("192.0.2.1")
		var dials atomic.Int64
		proceed := make(chan struct{}, 1)
		cfg := Config{
			Dial: network{"app.test:80": counting(&dials, answers(ok200, nil))}.dial,
			Lookup: func(context.Context, string) ([]netip.Addr, error) {
				<-proceed
				return []netip.Addr{addr}, nil
			},
		}
		p := newPool(t, cfg, "http://app.test")
		proceed <- struct{}{}
		fetch(t, p, inbound("GET", "/", nil))
		synctest.Wait()
		time.Sleep(DefaultResolveEvery)
		addr = addr.Next()
		resp, err := roundTrip(p, inbound("GET", "/", nil)) // starts the look-up
		if err != nil {
			t.Fatal(err)
		}
		proceed <- struct{}{}
		synctest.Wait()
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		synctest.Wait()
		if n := p.Status()[0].Connections; n != 0 {
			t.Errorf("%d connections are left to the old address", n)
		}
	})
}

func TestAddressesAreNotLookedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{
			Dial: network{"192.0.2.1:80": answers(ok200, nil), "[2001:db8::1]:80": answers(ok200, nil), "name.test:80": answers(ok200, nil)}.dial,
			Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
				t.Errorf("looked up %q", host)
				return nil, nil
			},
		}
		p := newPool(t, cfg, "http://192.0.2.1", "http://[2001:db8::1]")
		fetch(t, p, inbound("GET", "/", nil))
		fetch(t, p, inbound("GET", "/", nil))
		cfg.Pool.ResolveEvery = -1
		fetch(t, newPool(t, cfg, "http://name.test"), inbound("GET", "/", nil))
		synctest.Wait()
	})
}
