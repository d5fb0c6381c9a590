package main

import (
	"bytes"
	"errors"
	"fmt"
	"time"
)

// errUnknownSource is returned when time.Now is not what patch knows, as a new release of Go may have it.
var errUnknownSource = errors.New("time.Now of this toolchain is not the one that integration/clock knows how to move; see what Go changed, and patch.go")

// reading is how time.Now begins as of Go 1.26.
const reading = "\nfunc Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"

// bubbled is the declaration of what tells whether the clock is a fake one of testing/synctest.
const bubbled = "\nfunc runtimeIsBubbled() bool\n"

// patch returns the source of package time with a Now whose wall clock is ahead by whole seconds. It returns errUnknownSource if that cannot be
// done for sure.
func patch(source []byte, ahead time.Duration) ([]byte, error) {
	if bytes.Count(source, []byte(reading)) != 1 || bytes.Count(source, []byte(bubbled)) != 1 {
		return nil, errUnknownSource
	}
	moved := fmt.Sprintf("%s\tif !runtimeIsBubbled() {\n\t\tsec += %d\n\t}\n", reading, int64(ahead/time.Second))
	return bytes.Replace(source, []byte(reading), []byte(moved), 1), nil
}
