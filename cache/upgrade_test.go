package cache_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// hijackedWriter is a ResponseWriter whose connection is taken over when its client has gone. What is done to the writer itself then is a fault.
type hijackedWriter struct {
	http.ResponseWriter
	t     *testing.T
	taken bool
}

func (w *hijackedWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.taken = true
	client, server := net.Pipe()
	_ = client.Close()
	return server, bufio.NewReadWriter(bufio.NewReader(server), bufio.NewWriter(server)), nil
}

func (w *hijackedWriter) WriteHeader(status int) {
	if w.taken {
		w.t.Errorf("status %d was written to a connection that is not the server's any more", status)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *hijackedWriter) Flush() {
	if w.taken {
		w.t.Error("a connection that is not the server's any more was flushed")
	}
}

// TestUpgradeAfterTheClientWent: nothing is written for a client that has gone when the origin agrees to an upgrade, and that is what is told of it.
func TestUpgradeAfterTheClientWent(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(func(int, *http.Request) (*http.Response, error) {
			near, far := net.Pipe()
			_ = far.Close()
			resp := response(http.StatusSwitchingProtocols, "", "Connection: Upgrade", "Upgrade: chat")
			resp.Body = io.ReadWriteCloser(near)
			return resp, nil
		})
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://example.org/a", nil)
		req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"chat"}}
		w := &hijackedWriter{ResponseWriter: httptest.NewRecorder(), t: t}
		r.h.ServeHTTP(w, req)
		if !w.taken {
			t.Error("the connection was not handed over")
		}
		reads := r.notes.reads
		if len(reads) != 1 || !reads[0].ClientGone || reads[0].Status != http.StatusSwitchingProtocols || reads[0].Err != nil {
			t.Errorf("told %+v, want one client that went behind a 101", reads)
		}
	})
}
