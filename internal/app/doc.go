// Package app builds the proxy out of its parts from one [config.Config], starts, reloads and drains it.
//
// # Usage
//
//	a, err := app.New(cfg, app.Options{Log: os.Stderr, Out: os.Stdout, Load: load})
//	err = a.Start()       // binds every address, prints them to Out
//	a.Reload()            // reads the settings again, keeps the old ones on any mistake
//	err = a.Drain(ctx)    // stops accepting, finishes, cuts when ctx ends
//
// # Concurrency
//
// An App is safe for concurrent use after Start. It starts one goroutine for each set of origins that a reload replaced; they end
// when the old exchanges have, at Drain's end at the latest.
//
// # Errors
//
// New returns what cannot be built and leaves nothing open. Drain returns nil if everything ended in time or was cut at
// the configured limit, [ErrCut] if its context cut it.
//
// # Limits
//
// The zerolog level is the process's: two Apps in one process share it.
package app
