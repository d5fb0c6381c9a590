//go:build !linux

package server

import (
	"net"
)

// rawIO does not exist on systems other than Linux.
type rawIO struct{}

func newRawIO(tcp) *rawIO { return nil }

func (*rawIO) read([]byte) (int, error) { return 0, net.ErrClosed }
