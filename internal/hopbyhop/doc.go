// Package hopbyhop knows the header fields that concern one connection only and must not be forwarded or stored.
//
// # Usage
//
// Strip what a peer sent before anything reads the header for a decision, so that the cache judges the same fields
// that the origin sees:
//
//	upgrade := hopbyhop.UpgradeType(r.Header) // before Strip, which removes it
//	hopbyhop.Strip(r.Header)
//
// Strip is idempotent: the second call finds no Connection field any more.
//
// # What a Connection field can remove
//
// RFC 9110 §7.6.1 makes a proxy remove every field that the Connection field names, and forbids senders to name a
// field that is meant for all recipients. A sender who does so anyway is either broken or wants a shared cache and
// its origin to see different requests: `Connection: Authorization` would turn a personal request into an anonymous
// one behind the cache's back, `Connection: Cache-Control` in a response would lose a no-store. So the names in
// [Protected] are never removed on a peer's word, whoever strips first. Everything else that is named goes.
//
// Deviation: RFC 9110 §7.6.1 has no such exception; its own MUST NOT for senders is what makes it safe.
//
// # Concurrency
//
// Functions work on the header they are given and keep nothing. The caller owns the header.
//
// # RFC coverage
//
// RFC 9110 §7.6.1 (Connection), §7.8 (Upgrade), §10.1.4 (TE), §11.7 (Proxy-*), §6.6.2 (Trailer); RFC 9112 §6.1
// (Transfer-Encoding); RFC 9111 §3.1 (what a cache must not store).
package hopbyhop
