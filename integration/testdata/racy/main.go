// The command racy stands in for a proxy with a data race, to show that a test which runs one fails.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	race()
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		serve()
	}
	// The race detector would give a status of its own, by which a test could fail without having seen the report.
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

// race writes to one variable from two goroutines.
func race() {
	shared, done := 0, make(chan struct{})
	go func() {
		shared++
		close(done)
	}()
	shared++
	<-done
}

// serve does as much of a proxy as a test waits for.
func serve() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	fmt.Println("listening on http://127.0.0.1:1")
	fmt.Println("admin on http://127.0.0.1:1")
	<-stop
}
