//go:build race

package server

// raced says that the race detector is on: it allocates where the program does not, and slows everything down.
const raced = true
