package server

import (
	"bufio"
	"net"
	"testing"
	"time"
)

// Connections that the kernel has completed when accepting ends are served, also if the end has passed before anybody came to accept them.
func TestDrainServesBacklog(t *testing.T) {
	for name, wrap := range map[string]func(net.Listener) (net.Listener, error){
		"net's": func(ln net.Listener) (net.Listener, error) { return ln, nil }, "our own": listenSockets,
	} {
		t.Run(name, func(t *testing.T) {
			s := hitServer(t, Options{DrainIdle: time.Minute}, &fixedHits{})
			get := "GET /a HTTP/1.1\r\n" + host + "\r\n"
			resting := dial(t, s) // the drain goes on for as long as this does
			send(t, resting, get)
			answer(t, bufio.NewReader(resting))
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err == nil {
				ln, err = wrap(ln)
			}
			if err != nil {
				t.Fatal(err)
			}
			late := &listener{server: s, ln: ln}
			if err := late.acceptUntil(time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
			clients := make([]net.Conn, 3)
			for i := range clients {
				if clients[i], err = net.Dial("tcp", ln.Addr().String()); err != nil {
					t.Fatal(err)
				}
				defer clients[i].Close()
			}
			drained := make(chan error, 1)
			go func() { drained <- s.Drain(t.Context()) }()
			<-s.stopping
			late.run()
			for _, c := range clients {
				send(t, c, get)
				if resp, _ := answer(t, bufio.NewReader(c)); resp.StatusCode != 200 || !resp.Close {
					t.Errorf("status %d, the connection ends: %t", resp.StatusCode, resp.Close)
				}
			}
			_ = resting.Close()
			<-drained
		})
	}
}
