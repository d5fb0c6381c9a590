package server

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// guardPiece is what an HTTP/2 client must take within Options.WriteIdle: the smallest frame size there is (RFC 9113 §4.2).
const guardPiece = 16 << 10

// guard bounds silence on one HTTP/2 stream, where many streams share a connection and its deadlines cannot do it. It aborts the stream when
// a write waits too long for the client's window, or a read for the client's data. A write that waits because the connection's do is left to the
// connection's own limit. Used by the handler's goroutines as the writer it wraps is: one at a time.
type guard struct {
	http.ResponseWriter
	control *http.ResponseController
	idle    time.Duration
	held    *held // nil if the connection tells nothing
	body    *guardedBody

	mu    sync.Mutex // guards following
	timer *time.Timer
	waits bool // a write is under way
	quiet int  // looks at it, as of a writeWait
}

func (s *Server) guard(w http.ResponseWriter, r *http.Request) *guard {
	g := &guard{ResponseWriter: w, control: http.NewResponseController(w), idle: s.o.WriteIdle}
	g.held, _ = r.Context().Value(heldKey{}).(*held)
	if r.ContentLength != 0 && s.o.ReadBodyIdle > 0 {
		g.body = &guardedBody{ReadCloser: r.Body, control: g.control, idle: s.o.ReadBodyIdle}
		r.Body = g.body
	}
	return g
}

// Unwrap is for http.ResponseController.
func (g *guard) Unwrap() http.ResponseWriter { return g.ResponseWriter }

// Flush sends what was written. Most middleware still looks for this method rather than for a controller.
func (g *guard) Flush() {
	g.arm()
	_ = g.control.Flush() // the error comes again with the next write
	g.stop()
}

// Write writes in pieces, each with its own time.
func (g *guard) Write(b []byte) (n int, err error) {
	defer g.stop()
	for {
		piece := b[n:min(len(b), n+guardPiece)]
		g.arm()
		m, err := g.ResponseWriter.Write(piece)
		n += m
		if err != nil || n == len(b) {
			return n, err
		}
	}
}

// ReadFrom copies through Write.
func (g *guard) ReadFrom(src io.Reader) (int64, error) { return io.Copy(writerOnly{g}, src) }

func (g *guard) arm() {
	if g.idle == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waits, g.quiet = true, 0
	if g.timer == nil {
		g.timer = time.AfterFunc(lookEvery(g.idle), g.look)
		return
	}
	g.timer.Reset(lookEvery(g.idle))
}

// look makes the write fail that has waited for too long. Unlike a writeWait's it needs no first look: no buffer hides what the client's window is.
func (g *guard) look() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.quiet++; g.held != nil && g.held.still() {
		g.quiet = 0
	}
	switch {
	case !g.waits:
	case g.quiet < looks:
		g.timer.Reset(lookEvery(g.idle))
	default:
		_ = g.control.SetWriteDeadline(time.Unix(1, 0))
	}
}

func (g *guard) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waits = false
	if g.timer != nil {
		g.timer.Stop()
	}
}

// guardedBody gives each read of an HTTP/2 request body its own time.
type guardedBody struct {
	io.ReadCloser
	control *http.ResponseController
	idle    time.Duration
}

// Read fails if the client sends nothing for the idle limit.
func (b *guardedBody) Read(p []byte) (int, error) {
	t := time.AfterFunc(b.idle, b.abort)
	defer t.Stop()
	return b.ReadCloser.Read(p)
}

func (b *guardedBody) abort() { _ = b.control.SetReadDeadline(time.Unix(1, 0)) }
