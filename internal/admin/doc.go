// Package admin is the operator's listener: health, readiness, metrics, profiles, and whatever else is mounted on it.
//
// # Usage
//
//	a, err := admin.New(admin.Options{Listen: "127.0.0.1:8081", Gatherer: registry, Ready: ready})
//	a.Handle("POST /v1/purge", purge)   // before Start
//	err = a.Start()
//	err = a.Close(ctx)
//
// Paths: /healthz says that the process serves, /readyz that it wants traffic, /metrics speaks the Prometheus formats, and
// /debug/pprof/ is there if asked for.
//
// # Who may ask
//
// With a token, every path but /healthz and /readyz asks for it as "Authorization: Bearer …" (RFC 6750 §2.1). Without one the listener must
// be on a loopback address, and requests that a browser was tricked into are refused: those with a Host that is no loopback
// name (DNS rebinding), and those that come from another site by Origin or Sec-Fetch-Site.
//
// # Concurrency
//
// An Admin is safe for concurrent use once started; Handle belongs before Start. Its goroutine is the server's, which Close ends.
//
// # Errors
//
// New reports settings that would leave the listener open to anybody ([ErrNoToken]). Refusals are JSON, as [WriteError] writes them.
package admin
