package cache

import (
	"net/http"
)

// Proxy returns a handler that answers from the cache and gets everything else through up: a reverse proxy. up sees requests
// shaped as they came in (Host, RemoteAddr, TLS set, URL absolute); a rule's own Upstream goes before it. Upgrades, streaming and
// trailers pass through. up may be nil if every rule has an upstream. up must not lead back to the handler: a request that comes round would wait for
// itself until its time is over.
func (c *Cache) Proxy(up http.RoundTripper) http.Handler {
	via := upstream(proxied{orNone(up)})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.serve(w, r, via) })
}

// Handler returns middleware: it answers from the cache and gets everything else from next. Fills call next in a goroutine of
// their own, detached from the request that started them; requests that the cache is not concerned with reach next with the client's
// own writer.
func (c *Cache) Handler(next http.Handler) http.Handler {
	via := upstream(handled{handlerTransport{next}})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.serve(w, r, via) })
}

// Transport returns a RoundTripper that answers from the cache and gets everything else through base, nil meaning
// http.DefaultTransport: a client-side shared cache. The response's body must be closed as always.
func (c *Cache) Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return handlerTransport{c.Proxy(outbound{base})}
}

func orNone(up http.RoundTripper) http.RoundTripper {
	if up == nil {
		return noUpstream{}
	}
	return up
}

type noUpstream struct{}

func (noUpstream) RoundTrip(*http.Request) (*http.Response, error) { return nil, errNoRule }

// outbound gives requests the form that client transports expect.
type outbound struct{ base http.RoundTripper }

func (o outbound) RoundTrip(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.RequestURI, out.RemoteAddr, out.TLS = "", "", nil
	return o.base.RoundTrip(out)
}
