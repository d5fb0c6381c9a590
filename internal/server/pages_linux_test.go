package server

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Both ways of sending a cached file send the same bytes, and go on where they had to wait.
func TestSendPages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, bulkBody(), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, send := range map[string]func(to, fd uintptr, at, n, sent int64) (int64, syscall.Errno){"pages": sendPages, "copies": copyPages} {
		for _, part := range []struct{ at, n int64 }{{0, bulk}, {12345, 3 * sendLimit}, {bulk - 1, 1}, {bulk - 10, 10}, {7, 0}} {
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			to, from := tcpPair(t)
			got := make(chan []byte, 1)
			go func() {
				b, _ := io.ReadAll(from)
				got <- b
			}()
			raw, err := to.SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			var sent int64
			var errno syscall.Errno
			waits := 0
			err = raw.Write(func(fd uintptr) bool {
				sent, errno = send(fd, f.Fd(), part.at, part.n, sent)
				waits++
				return errno != syscall.EAGAIN
			})
			_ = to.Close()
			want := bulkBody()[part.at : part.at+part.n]
			if err != nil || errno != 0 || sent != int64(len(want)) || !bytes.Equal(<-got, want) {
				t.Errorf("%s, %d bytes from %d on: %d sent, %v, %v", name, part.n, part.at, sent, errno, err)
			}
			t.Logf("%s, %d bytes: waited %d times", name, part.n, waits-1)
		}
	}
}

// tcpPair is a connection and its other end.
func tcpPair(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	d, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return c.(*net.TCPConn), d.(*net.TCPConn)
}
