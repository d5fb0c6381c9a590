// Package cache is a stale-while-revalidate HTTP cache: a shared cache in the sense of RFC 9111 that answers from its
// store at once, serves expired responses while one background fill refreshes them (RFC 5861), and lets readers who may not be
// served stale wait for the running fill and share its outcome.
//
// # Usage
//
//	store, err := memory.New(memory.Options{Max: 256 << 20})
//	c, err := cache.New(cache.Config{Store: store})
//	defer c.Close(context.Background())
//	http.ListenAndServe(addr, c.Handler(mux))
//
// Three ways in: [Cache.Handler] wraps a handler of the same process, [Cache.Transport] a client's transport, and
// [Cache.Proxy] makes a reverse proxy of a transport. All three are the same engine.
//
// # Life of a request
//
// A read finds its rule and key, looks the record up, and asks policy for a verdict. Fresh: the record is sent, nothing else happens.
// Stale but servable: one non-blocking attempt on the key's lease; busy means do nothing more, free means a background fill; the record is
// sent. Otherwise the read takes the lease and follows its own fill, or waits for the running one. A wake-up means look again,
// never it is yours.
//
// # Concurrency
//
// All methods of [Cache] are safe for concurrent use. One goroutine runs per fill, at first that of its reader where the transport allows it;
// Close waits for all of them. A fill is detached from the client that started it. Records are immutable and shared.
//
// # Errors
//
// The client sees a status and a short fixed text; the cause goes to the [Observer]. A body that breaks off after its head was sent breaks the
// client's transfer off too ([net/http.ErrAbortHandler]).
//
// # Limits
//
// Bodies above ObjectConfig.Max are streamed, not stored. At most ObjectConfig.Variants variants of one key are kept, and at most 8
// distinct Vary lists. Back-off and not-shareable marks are remembered for at most 65,536 keys.
package cache
