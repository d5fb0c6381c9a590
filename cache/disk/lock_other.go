//go:build !unix

package disk

import "os"

// tryLock relies on the lock that bbolt takes on its file.
func tryLock(*os.File) (taken bool, err error) { return false, nil }

// spaceOf does not know.
func spaceOf(string) space { return unknownSpace }
