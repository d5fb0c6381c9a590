package origin

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"time"
)

// lookupTimeout bounds a look-up in the background; nobody waits for it.
const lookupTimeout = 10 * time.Second

// refreshAddrs looks the target's name up again when that is due, in the background. It runs on the way of an exchange,
// so an origin that nobody uses is not looked up. One look-up runs at a time, because its start sets the next.
func (p *Pool) refreshAddrs(t *target) {
	every := p.cfg.Pool.ResolveEvery
	if t.hostname == "" || every <= 0 {
		return
	}
	now := p.now()
	due := t.resolveAt.Load()
	if int64(now) < due || !t.resolveAt.CompareAndSwap(due, int64(now+every)) || !p.gate.enter() {
		return
	}
	go func() {
		defer p.gate.leave()
		p.resolve(t)
	}()
}

// resolve renews the connections if the name's addresses changed. A failed or empty look-up changes nothing: the
// connections at hand are better than none.
func (p *Pool) resolve(t *target) {
	ctx, cancel := context.WithTimeout(p.ctx, lookupTimeout)
	defer cancel()
	addrs, err := p.lookup(ctx, t.hostname)
	if err != nil || len(addrs) == 0 {
		return
	}
	addrs = slices.Clone(addrs)
	slices.SortFunc(addrs, netip.Addr.Compare)
	before := t.addrs.Swap(&addrs)
	if before != nil && !slices.Equal(*before, addrs) {
		t.renew()
	}
}

// lookupNet is the look-up of a pool without Config.Lookup.
func lookupNet(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}
