// Package admin is the operator's listener: health, readiness, metrics, profiles, and an API to look into the cache and to purge it.
//
// # Usage
//
//	a, err := admin.New(admin.Options{Listen: "127.0.0.1:8081", Cache: cache, Gatherer: registry, Ready: ready})
//	err = a.Start()
//	err = a.Close(ctx)
//
// Paths: /healthz says that the process serves, /readyz that it wants traffic, /metrics speaks the Prometheus formats, and
// /debug/pprof/ is there if asked for. With a cache there are POST /v1/purge, GET /v1/records, POST /v1/refresh and GET /v1/stats;
// docs/admin-api.md describes them. Input is decoded strictly: an unknown field, a wrong type, or two selectors are an error that names
// field, value and what would be right.
//
// [PurgeMethod] is the PURGE method of the public listener, for those who want it.
//
// # Who may ask
//
// With a token, every path but /healthz and /readyz asks for it as "Authorization: Bearer …" (RFC 6750 §2.1). Without one the listener must
// be on a loopback address, and requests that a browser was tricked into are refused: those with a Host that is no loopback
// name (DNS rebinding), and those that come from another site by Origin or Sec-Fetch-Site.
//
// # Concurrency
//
// An Admin is safe for concurrent use once started; Handle belongs before Start. Its goroutines are the server's and, while purges have
// left URLs to fetch afresh, up to Options.Refills more. Close ends them.
//
// # Errors
//
// New reports settings that would leave the listener open to anybody ([ErrNoToken]). Refusals are JSON, as [WriteError] writes them.
package admin
