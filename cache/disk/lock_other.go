//go:build !unix

package disk

import "os"

// tryLock relies on the lock that bbolt takes on its file.
func tryLock(*os.File) (taken bool, err error) { return false, nil }

// available is the free space of path's file system in bytes, −1 if unknown.
func available(string) int64 { return -1 }
