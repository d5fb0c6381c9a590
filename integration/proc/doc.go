// Package proc runs a swrproxy binary as a child process for tests and tools: build it, start it, learn its addresses from
// its output, read its log, stop it.
//
// # Usage
//
//	bin, err := proc.Build(ctx, dir, proc.BuildOptions{})
//	p, err := proc.Start(ctx, proc.Options{Bin: bin, Args: []string{"serve", "--config", file}, Listeners: 1, Admin: true})
//	resp, err := http.Get(p.URL() + "/")
//	code, err := p.Stop(10 * time.Second)
//
// # Concurrency
//
// A Process is safe for concurrent use. Start leaves two goroutines behind, one for each output of the child; they end with it.
//
// # Errors
//
// A child that dies before it has printed its addresses makes Start fail with everything it wrote.
package proc
