//go:build !linux

package hugepages

// Advise does nothing on systems other than Linux.
func Advise(int64) int64 { return 0 }
