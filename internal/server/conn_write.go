package server

import (
	"io"
	"os"
	"syscall"
	"time"
)

// Write writes all of b. It fails only if the client takes no byte for Options.WriteIdle.
func (c *conn) Write(b []byte) (n int, err error) {
	if c.tcp == nil {
		return c.inner.Write(b) // the tlsLink has the same limit
	}
	w := new(writeWait)
	defer c.endWait(w)
	for {
		c.armWrite()
		m, err := c.tcp.Write(b[n:])
		n += m
		if err == nil || !c.goOn(w, int64(m), err) {
			return n, err
		}
	}
}

// armWrite gives a wait its limit.
func (c *conn) armWrite() {
	idle := c.server.o.WriteIdle
	if idle == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if fits(c.writeArmed.Sub(now), idle) {
		return
	}
	c.writeArmed = nearer(now.Add(lookEvery(idle)), c.writeUser)
	_ = c.tcp.SetWriteDeadline(c.writeArmed) // a closed connection says so at the write
}

// goOn tells whether a write that ended early may continue: the client takes bytes, and no deadline that somebody set has come.
func (c *conn) goOn(w *writeWait, wrote int64, err error) bool {
	idle := c.server.o.WriteIdle
	if idle == 0 || c.writeOver() || !w.goOn(c.tcp, wrote, err) {
		return false
	}
	c.held.after(w, idle)
	return true
}

func (c *conn) endWait(w *writeWait) { c.held.after(w, c.server.o.WriteIdle) }

// ReadFrom lets net/http use sendfile for files, and splice for what was hijacked.
func (c *conn) ReadFrom(src io.Reader) (int64, error) {
	switch {
	case c.tcp == nil:
	case c.phase == phaseTunnel:
		return c.tcp.ReadFrom(src)
	default:
		if f := fileOf(src); f != nil {
			return c.sendFile(f, src)
		}
	}
	return io.Copy(writerOnly{c}, src)
}

// writerOnly hides ReadFrom from io.Copy.
type writerOnly struct{ io.Writer }

// file is what sendfile needs of an *os.File, which io.Copy may have wrapped to hide its WriteTo.
type file interface {
	io.ReadSeeker
	syscall.Conn
	Stat() (os.FileInfo, error)
}

// filePiece is how much is asked of the disk at a time.
const filePiece = 4 << 20

// fileOf returns the file behind src, nil if there is none.
func fileOf(src io.Reader) file {
	if l, ok := src.(*io.LimitedReader); ok {
		src = l.R
	}
	f, _ := src.(file)
	return f
}

// limitOf returns how many bytes src has to give of f, which stands at start.
func limitOf(src io.Reader, f file, start int64) (l *io.LimitedReader, n int64, err error) {
	fi, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	n = max(fi.Size()-start, 0)
	if l, _ = src.(*io.LimitedReader); l != nil {
		n = min(n, l.N)
	}
	return l, n, nil
}

// sendFile sends src, which reads from f, for as long as the client takes bytes.
func (c *conn) sendFile(f file, src io.Reader) (n int64, err error) {
	start, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return io.Copy(writerOnly{c}, src)
	}
	limited, total, err := limitOf(src, f, start)
	if err != nil {
		return 0, err
	}
	for w := new(writeWait); ; {
		c.armWrite()
		m, err := c.sendSome(f, start+n, total-n)
		if n += m; limited != nil {
			limited.N -= m
		}
		if err == nil && (m == 0 || n == total) || err != nil && !c.goOn(w, m, err) {
			return n, err
		}
	}
}

// sendSome sends some of the n bytes of f from at on: what is in memory, or else a piece from the disk.
func (c *conn) sendSome(f file, at, n int64) (int64, error) {
	if sent, err := c.sendResident(f, at, n); sent > 0 || err != nil {
		return sent, err
	}
	// Without sendfile, ReadFrom has read more than it wrote before.
	if _, err := f.Seek(at, io.SeekStart); err != nil {
		return 0, err
	}
	return c.tcp.ReadFrom(&io.LimitedReader{R: f, N: min(n, filePiece)})
}

// CloseWrite tells the client that nothing more comes.
func (c *conn) CloseWrite() error {
	if half, ok := c.inner.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func (c *conn) closeNow() error {
	c.once.Do(func() {
		close(c.closed)
		c.quitLoop()
	})
	err := c.inner.Close()
	c.link.forget()
	return err
}

const (
	// lingerTime and lingerBytes bound how long a refused client is listened to: closing at once would reset the connection
	// and might take the answer with it (RFC 9112 §9.6).
	lingerTime  = 500 * time.Millisecond
	lingerBytes = 256 << 10
)

// refuse answers a bad request and ends the connection. The error is what net/http takes for a client that went away.
func (c *conn) refuse(r refusal) error {
	c.phase = phaseBroken
	c.server.refused(r, c.RemoteAddr())
	if _, err := c.Write(r.response(time.Now())); err != nil {
		return io.EOF
	}
	if c.CloseWrite() != nil {
		return io.EOF
	}
	c.armLinger()
	_, _ = io.CopyN(io.Discard, c.inner, lingerBytes) // however it ends, it ends
	return io.EOF
}
