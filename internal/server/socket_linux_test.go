package server

import (
	"bufio"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// acceptOne returns both ends of a connection to addr, accepted as a socket or as net does.
func acceptOne(t *testing.T, addr string, sockets bool) (client, server net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err == nil && sockets {
		ln, err = listenSockets(ln)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	client, err = net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	server, err = ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return client, server
}

// What the system is told about a connection is what net tells it.
func TestSocketOptions(t *testing.T) {
	options := func(sockets bool) (values [5]int) {
		_, c := acceptOne(t, "127.0.0.1:0", sockets)
		raw, err := c.(tcp).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		err = raw.Control(func(fd uintptr) {
			for i, o := range [5][2]int{
				{unix.IPPROTO_TCP, unix.TCP_NODELAY},
				{unix.SOL_SOCKET, unix.SO_KEEPALIVE},
				{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE},
				{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL},
				{unix.IPPROTO_TCP, unix.TCP_KEEPCNT},
			} {
				v, err := unix.GetsockoptInt(int(fd), o[0], o[1])
				if err != nil {
					t.Fatal(err)
				}
				values[i] = v
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		return values
	}
	if diff := cmp.Diff(options(false), options(true)); diff != "" {
		t.Errorf("net and socket (-net +socket):\n%s", diff)
	}
}

func TestSocketAddresses(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		t.Run(addr, func(t *testing.T) {
			probe, err := net.Listen("tcp", addr)
			if err != nil {
				t.Skip("the system has no such address: ", err)
			}
			_ = probe.Close()
			client, c := acceptOne(t, addr, true)
			if got, want := c.RemoteAddr().String(), client.LocalAddr().String(); got != want {
				t.Errorf("remote address %s, want %s", got, want)
			}
			if got, want := c.LocalAddr().String(), client.RemoteAddr().String(); got != want {
				t.Errorf("local address %s, want %s", got, want)
			}
		})
	}
}

// A socket that is closed ends waits and refuses work, but its descriptor is not anybody else's while it is in use.
func TestSocketClose(t *testing.T) {
	client, c := acceptOne(t, "127.0.0.1:0", true)
	s := c.(*socket)
	if _, err := s.Write([]byte("x")); err != nil { // makes it known to Go's poller
		t.Fatal(err)
	}
	read := make(chan error)
	go func() {
		_, err := s.Read(make([]byte, 1))
		read <- err
	}()
	raw, _ := s.SyscallConn()
	err := raw.Control(func(fd uintptr) {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-read; !errors.Is(err, net.ErrClosed) {
			t.Errorf("the read that waited: %v", err)
		}
		if _, err := unix.FcntlInt(fd, unix.F_GETFD, 0); err != nil {
			t.Errorf("the descriptor in use: %v", err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func() error{
		"control": func() error { return raw.Control(func(uintptr) {}) },
		"read":    func() error { _, err := s.Read(make([]byte, 1)); return err },
		"write":   func() error { _, err := s.Write([]byte("x")); return err },
		"close":   s.Close,
	} {
		if err := do(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s afterwards: %v", name, err)
		}
	}
	_ = client.SetDeadline(time.Now().Add(patience))
	if n, err := bufio.NewReader(client).WriteTo(discard{}); n != 1 || err != nil {
		t.Errorf("the client read %d bytes, %v; want 1 and the end", n, err)
	}
}

type discard struct{}

// Write takes everything.
func (discard) Write(p []byte) (int, error) { return len(p), nil }

// A listener that is told when to stop does, with the error that says why.
func TestSocketListenerDeadline(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		ln, err = listenSockets(ln)
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.(*socketListener).SetDeadline(time.Unix(1, 0))
	if _, err := ln.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("behind the deadline: %v", err)
	}
	_ = ln.Close()
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// Who only asks for what is in memory never becomes known to Go's poller, and who asks for more has no descriptor left when the connection is over.
func TestSocketDescriptors(t *testing.T) {
	s := hitServer(t, Options{}, &fixedHits{bodies: map[string][]byte{"/h": []byte("hit")}})
	before := descriptors(t)
	var clients []net.Conn
	waiting := func() (n int) {
		for _, c := range s.links.all() {
			if c.(*conn).tcp.(*socket).waiter != nil {
				n++
			}
		}
		return n
	}
	ask := func(requests ...string) {
		t.Helper()
		c := dial(t, s)
		clients = append(clients, c)
		r := bufio.NewReader(c)
		for _, request := range requests {
			send(t, c, request)
			answer(t, r)
		}
	}
	ask("GET /h HTTP/1.1\r\n"+host+"\r\n", "GET /m HTTP/1.1\r\n"+host+"\r\n")
	if n := waiting(); n != 0 {
		t.Errorf("%d connections known to Go's poller behind hits and a short answer, want 0", n)
	}
	ask("POST /p HTTP/1.1\r\n" + host + "Content-Length: 3\r\n\r\nabc")
	if n := waiting(); n != 1 {
		t.Errorf("%d connections known to Go's poller behind an upload, want 1", n)
	}
	for _, c := range clients {
		_ = c.Close()
	}
	<-s.links.empty()
	// Who uses a descriptor at that moment closes it a little later.
	for until := time.Now().Add(patience); descriptors(t) != before; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%d open descriptors, %d before the clients came", descriptors(t), before)
		}
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
