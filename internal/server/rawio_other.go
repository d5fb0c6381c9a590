//go:build !linux

package server

import (
	"net"
)

// rawIO reads and writes a connection; on Linux with fewer steps.
type rawIO struct {
	conn *net.TCPConn
	pair [2][]byte
	vec  net.Buffers
}

func newRawIO(c *net.TCPConn) *rawIO { return &rawIO{conn: c} }

// read is Conn.Read.
func (r *rawIO) read(p []byte) (int, error) { return r.conn.Read(p) }

// write writes a and b and returns how much went out, which after a timeout may be a part. There are no twins.
func (r *rawIO) write(a, b []byte, _ *twin) (int64, error) {
	r.pair = [2][]byte{a, b}
	r.vec = r.pair[:]
	n, err := r.vec.WriteTo(r.conn)
	r.vec, r.pair = nil, [2][]byte{}
	return n, err
}
