//go:build !linux

package server

// On systems other than Linux there is no loop, and so no hit path: net/http serves every request.

type (
	loop     struct{}
	watch    struct{}
	loopSide struct{}
)

func (*Server) startLoops() error { return nil }

func (*loop) stop() {}

func (*conn) looped() bool { return false }

func (*conn) joinLoop() bool { return false }

func (*conn) holdWatched() error { return nil }

func (*conn) await() error { return nil }

func (*conn) unwatch() {}

func (*conn) endRest() {}

func (*conn) quitLoop() {}

func (*conn) cancelRequest() {}

func (c *conn) cut() { _ = c.closeNow() }

func (*conn) writeSome(_, _ []byte) int64 { return 0 }

func (c *conn) writeBoth(a, b []byte) (int, error) {
	n, err := c.Write(append(a, b...))
	return max(n-len(a), 0), err
}

// Close closes the connection.
func (c *conn) Close() error { return c.closeNow() }
