package admin

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/policy"
)

// MethodPurge is the method by which some programs ask a cache to drop one URL. No standard defines it.
const MethodPurge = "PURGE"

// allowedMethods is what a 405 for PURGE names: RFC 9110 §15.5.6. The origin may know fewer.
const allowedMethods = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"

// PurgeMethod answers PURGE on the public listener: for peers that are allowed it purges the request's own URL, hard, with all variants. For
// all others the method does not exist: 405. It never reaches the origin. Immutable.
type PurgeMethod struct {
	Cache Cache
	// Allow returns the networks of the peers that may purge now. None means nobody.
	Allow func() []netip.Prefix
	// Scheme tells a request's scheme, as in cache.Config.
	Scheme func(*http.Request) string
	// Observer is told of each PURGE that is refused; the cache tells its own of the others.
	Observer cache.Observer
}

// Wrap returns a handler that answers PURGE and leaves everything else to next.
func (p PurgeMethod) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != MethodPurge {
			next.ServeHTTP(w, r)
			return
		}
		p.serve(w, r)
	})
}

func (p PurgeMethod) serve(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	target, err := policy.NewTarget(r, p.Scheme(r))
	switch {
	case !p.allows(r):
		h.Set("Allow", allowedMethods)
		p.refuse(w, r, start, target, &badInput{why: "PURGE is not allowed", mend: "ask the operator, or use the admin API", status: http.StatusMethodNotAllowed})
	case err != nil:
		p.refuse(w, r, start, target, badURL("url", r.URL.String(), err.Error()))
	default:
		policy.AddCacheStatus(h, &policy.CacheStatus{Detail: policy.ReasonInvalidated.String()})
		res, err := p.Cache.Purge(r.Context(), cache.Selector{URL: target.URL().String()}, cache.PurgeOptions{By: "PURGE " + r.RemoteAddr})
		writePurge(w, PurgeAnswer{Records: res.Records, Tiers: res.Tiers, Keys: res.Keys}, err)
	}
}

// refuse answers, and tells the Observer as of any other request that the cache turns down.
func (p PurgeMethod) refuse(w http.ResponseWriter, r *http.Request, start time.Time, t policy.Target, bad *badInput) {
	policy.AddCacheStatus(w.Header(), &policy.CacheStatus{Detail: policy.ReasonMethod.String()})
	counted := &countingWriter{ResponseWriter: w}
	writeBad(counted, bad)
	p.Observer.ReadDone(&cache.ReadEvent{
		Start: start, Took: time.Since(start), Method: r.Method, Proto: r.Proto, Remote: r.RemoteAddr,
		Scheme: t.Scheme, Host: t.Authority, Path: t.Path, Query: t.RawQuery,
		Status: counted.status, Bytes: counted.bytes, Result: cache.ResultRefused, Reason: policy.ReasonMethod,
	})
}

// allows tells whether the peer itself may purge. What a proxy passes on is refused, whoever the proxy is: it would lend every client its
// own address. So is what a page of another site made a browser send.
func (p PurgeMethod) allows(r *http.Request) bool {
	if r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("Forwarded") != "" || r.Header.Get("Via") != "" || crossSite(r) {
		return false
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	addr := peer.Addr().Unmap().WithZone("")
	for _, n := range p.Allow() {
		if n.Contains(addr) {
			return true
		}
	}
	return false
}

// countingWriter notes what was answered.
type countingWriter struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (c *countingWriter) WriteHeader(status int) {
	c.status = status
	c.ResponseWriter.WriteHeader(status)
}

func (c *countingWriter) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b)
	c.bytes += int64(n)
	return n, err
}
