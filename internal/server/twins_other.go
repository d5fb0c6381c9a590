//go:build !linux

package server

// twins make no copies on systems other than Linux.
type twins struct{}

type twin struct{}

func newTwins(int64) *twins { return &twins{} }

func (*twins) get([]byte, uint64) *twin { return nil }

func (*twins) close() {}

func (*twin) release() {}
