package cache

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
)

// heldWriter keeps the head of a passed response back until something follows it: a body that turns out to be broken before that is
// answered as any failure is. Safe for the two goroutines on which httputil.ReverseProxy writes and flushes.
type heldWriter struct {
	countedWriter

	hijacked bool // the connection is not the server's any more

	mu     sync.Mutex // guards following
	status int        // of the head that waits; 0 if none does
	broke  error      // why the body broke off while it waited
}

// Hijack is for [http.ResponseController]: an upgrade.
func (w *heldWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(w.countedWriter.ResponseWriter).Hijack()
	w.hijacked = err == nil
	return c, rw, err
}

// WriteHeader holds a final head back.
func (w *heldWriter) WriteHeader(status int) {
	if status < 200 {
		w.countedWriter.WriteHeader(status)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status = status
}

// Write sends the head, then b.
func (w *heldWriter) Write(b []byte) (int, error) {
	w.release()
	return w.countedWriter.Write(b)
}

// FlushError is for [http.ResponseController].
func (w *heldWriter) FlushError() error {
	if !w.release() {
		return nil
	}
	return http.NewResponseController(w.countedWriter.ResponseWriter).Flush()
}

// release sends the head if it waits; false if it never will be sent.
func (w *heldWriter) release() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broke != nil {
		return false
	}
	if w.status != 0 {
		w.rd.dontWait()
		w.countedWriter.WriteHeader(w.status)
		w.status = 0
	}
	return true
}

// end sends a head that nothing followed. The error is that of a body that broke off before anything was sent.
func (w *heldWriter) end() error {
	w.release()
	return w.broke
}

// show sends what there is of an answer that was broken off later, so that its client sees a status and how far it came. ReverseProxy has
// ended its flushing when it panics.
func (w *heldWriter) show() {
	if w.rd.ev.Err != nil && !w.hijacked {
		_ = http.NewResponseController(w.countedWriter.ResponseWriter).Flush() // the client may be gone as well
	}
}

// sendEarly sends an early answer that is complete: ReverseProxy, too, waits for the rest of the request behind it.
func (w *heldWriter) sendEarly() {
	if w.rd.early() {
		_ = w.FlushError() // as in show
	}
}

// fails takes the error of a body, and tells whether the head still waited.
func (w *heldWriter) fails(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.status != 0 {
		w.broke = err
	}
	return w.broke != nil
}

// watch notices the failure of resp's body.
func (w *heldWriter) watch(resp *http.Response) {
	if resp.StatusCode != http.StatusSwitchingProtocols {
		resp.Body = &watchedBody{ReadCloser: resp.Body, w: w}
	}
}

// watchedBody tells the writer of an error. To ReverseProxy, which would break the connection off, it seems to end if nothing was sent.
type watchedBody struct {
	io.ReadCloser
	w   *heldWriter
	err error // sticky
}

func (b *watchedBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.end()
	}
	n, err := b.ReadCloser.Read(p)
	if err == nil || err == io.EOF {
		return n, err
	}
	if b.err = err; n > 0 {
		return n, nil // these are sent first
	}
	return 0, b.end()
}

// Close is called when all of the body is copied, or none will be.
func (b *watchedBody) Close() error {
	err := b.ReadCloser.Close()
	b.w.sendEarly()
	return err
}

// end is how the body ends for ReverseProxy.
func (b *watchedBody) end() error {
	if b.w.fails(b.err) {
		return io.EOF
	}
	b.w.rd.ev.Err = b.err
	return b.err
}
