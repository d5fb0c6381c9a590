//go:build !unix

package origin

import "errors"

// canSwap tells that a firstSwap does not work on this system.
const canSwap = false

func rawRead(uintptr, []byte) (int, error) { return 0, errors.ErrUnsupported }

func rawWrite(uintptr, []byte) (int, error) { return 0, errors.ErrUnsupported }

func again(error) bool { return false }
