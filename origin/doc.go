// Package origin makes one exchange with an upstream: it picks one of an origin's URLs, forwards the request as a
// gateway must, and says what went wrong in a closed set of classes.
//
// # Usage
//
//	u, _ := url.Parse("http://127.0.0.1:3000")
//	pool, err := origin.New(origin.Config{Name: "app", URLs: []*url.URL{u}})
//	...
//	resp, err := pool.RoundTrip(inbound) // a server's request, or a clone of one
//	...
//	pool.Close(ctx)
//
// A [Pool] is an [http.RoundTripper] for requests in the shape in which a server got them: RemoteAddr, TLS and Host tell
// about the client, the URL holds path and query as sent. It can be the Transport of an [httputil.ReverseProxy].
//
// # What is changed on the way
//
// Request: connection-specific fields go (see package hopbyhop), except an upgrade to websocket and "TE: trailers". Via,
// X-Forwarded-For, -Host, -Proto, X-Real-IP and Forwarded are written from the real peer; what the client said there is
// kept only if the peer is in TrustedProxies. Fields that override target, host or method are dropped, as are spellings
// with underscores of any field that would be. No User-Agent, no Accept-Encoding is added. The path is put behind the URL's, its
// escapes untouched; the query is sent as it is. A redirect is a response like any other.
//
// Response: connection-specific fields go, except those of a 101. Bodies are never decoded. 1xx responses reach the
// request's [httptrace.ClientTrace]; trailers stand in the response's Trailer after the body's end. Request trailers are
// sent if req.Trailer is the very map that the server fills while the body is read, which Request.Clone copies and
// Request.WithContext does not.
//
// # Two clients
//
// GET and HEAD without a body to a plain http URL, which is nearly all that a cache sends, are exchanged on the caller's goroutine over
// connections of this package's own; see plain.go for what it leaves to net/http's Transport. MaxIdle and IdleTimeout hold for each of the two.
// Such an exchange can also be begun on one goroutine and ended on another, see [Pool.RoundTripWithin].
// They differ in two answers only: this package's own refuses one with both Content-Length and Transfer-Encoding, and lets one with an unknown
// transfer coding pass, without the field, until the origin closes.
//
// # Failover and health
//
// URLs take turns. MaxFails failures in a row take one out for FailFor; then one request probes it. A failure to connect
// goes to the next URL whatever the method, since nothing was sent; a reset before the response head only with a safe
// method and no body; a late response head never. No URL is tried twice in one exchange. Beside that, net/http sends a repeatable
// request again on a new connection if a kept one turns out to be closed, and so does this package's own client. A caller that gives up is never held against the origin.
//
// # Names
//
// Each new connection resolves the host name. The names of URLs in use are looked up again every ResolveEvery, and when the
// set of addresses has changed, unused connections are closed and those in use are not used again.
//
// # Concurrency
//
// A Pool is safe for concurrent use. It starts one short-lived goroutine per name at a time for look-ups; net/http has two
// for each of its HTTP/1.1 connections and one for each HTTP/2 connection, which end when Close has closed them. A silence limit costs a timer,
// not a goroutine.
//
// # Errors
//
// RoundTrip and bodies fail with an *[Error], whose [Class] says whom to blame and which status fits. The caller's own
// cancellation stays findable with errors.Is, cause included.
//
// # RFC coverage
//
// RFC 9110 §7.6.1 (Connection), §7.6.2 (Max-Forwards), §7.6.3 (Via), §7.8 (Upgrade), §9.2 (safe and idempotent methods), §10.1.4 (TE), §15.6; RFC 9112
// §6, §9.8 (incomplete messages); RFC 9113 towards origins; RFC 7239 (Forwarded).
//
// # Limits
//
// A response head may have 1 MiB. HTTP/3, forward proxies, CONNECT and upgrades over HTTP/2 (RFC 8441) are not supported. A response whose
// length only the connection's close tells (HTTP/1.0) can not be seen to be truncated. net/http logs bytes that arrive unasked on an idle
// connection to the standard logger; this package logs nothing.
package origin
