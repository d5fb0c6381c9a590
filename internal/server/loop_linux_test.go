package server

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Whatever a client does between requests, each is answered, and each connection ends when the client or the server says so.
func TestOwners(t *testing.T) {
	const idle = 300 * time.Millisecond
	get := func(target string) string { return "GET " + target + " HTTP/1.1\r\n" + host + "\r\n" }
	post := "POST /p HTTP/1.1\r\n" + host + "Content-Length: 3\r\n\r\nabc"
	for name, tc := range map[string]struct {
		requests []string // each is sent when the one before is answered
		half     bool     // the client closes its side with the last one
	}{
		"silent":             {},
		"hit":                {requests: []string{get("/h")}},
		"hit, half-closed":   {requests: []string{get("/h")}, half: true},
		"miss":               {requests: []string{get("/m")}},
		"miss, half-closed":  {requests: []string{get("/m")}, half: true},
		"to and fro":         {requests: []string{get("/h"), get("/m"), get("/h"), get("/m"), get("/m"), get("/h")}},
		"bodies":             {requests: []string{get("/h"), post, get("/h"), post, get("/m"), get("/h")}},
		"empty lines":        {requests: []string{"\r\n" + get("/h"), get("/h") + "\r\n", get("/m") + "\r\n", get("/h")}},
		"body, half-closed":  {requests: []string{post}, half: true},
		"ended by a miss":    {requests: []string{get("/h"), get("/m")}, half: true},
		"longer than a read": {requests: []string{get("/h?" + strings.Repeat("x", bufferSize)), get("/h")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := hitServer(t, Options{IdleTimeout: idle, ReadHeaderTimeout: idle}, &fixedHits{bodies: map[string][]byte{"/h": []byte("hit")}})
			c := dial(t, s)
			r := bufio.NewReader(c)
			for i, request := range tc.requests {
				send(t, c, request)
				if tc.half && i == len(tc.requests)-1 {
					_ = c.(*net.TCPConn).CloseWrite()
					break
				}
				if resp, _ := answer(t, r); resp.StatusCode != http.StatusOK {
					t.Fatalf("request %d: status %d", i, resp.StatusCode)
				}
			}
			rest, err := io.ReadAll(r) // until the server ends the connection
			if err != nil || strings.Count(string(rest), "HTTP/1.1 200 OK\r\n") != btoi(tc.half) {
				t.Errorf("at the end: %q, %v", rest, err)
			}
			<-s.links.empty()
		})
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Pipelined hits beyond one turn are all answered, and others have their turn in between.
func TestLongPipeline(t *testing.T) {
	s := hitServer(t, Options{}, &fixedHits{bodies: map[string][]byte{"/h": []byte("hit"), "/big": bulkBody()[:3<<20]}})
	c := dial(t, s)
	const n = 20 * turnHits
	go func() {
		one := "GET /h HTTP/1.1\r\n" + host + "\r\n"
		_, _ = io.WriteString(c, strings.Repeat(one, n/2)+"GET /big HTTP/1.1\r\n"+host+"\r\n"+strings.Repeat(one, n/2))
	}()
	r := bufio.NewReader(c)
	for i := range n + 1 {
		want := "hit"
		if i == n/2 {
			want = string(bulkBody()[:3<<20])
		}
		if _, got := answer(t, r); got != want {
			t.Fatalf("answer %d: %d bytes %.20q, want %d", i, len(got), got, len(want))
		}
	}
}

// Many connections at once mix hits, misses and bodies, rest, and go in the middle; at the end the books are empty.
func TestManyConnections(t *testing.T) {
	s := hitServer(t, Options{IdleTimeout: 50 * time.Millisecond}, &fixedHits{bodies: map[string][]byte{"/h": []byte("hit")}})
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			if err := mixRequests(s, rand.New(rand.NewPCG(uint64(i), 2))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	<-s.links.empty()
}

// mixRequests makes requests on several connections. One that has rested too long may be closed by the server; then it takes a new one.
func mixRequests(s *Server, r *rand.Rand) error {
	kinds := []struct{ request, want string }{
		{"GET /h HTTP/1.1\r\n" + host + "\r\n", "hit"},
		{"GET /m HTTP/1.1\r\n" + host + "\r\n", `GET /m ""`},
		{"POST /p HTTP/1.1\r\n" + host + "Content-Length: 3\r\n\r\nabc", `POST /p "abc"`},
	}
	for range 8 {
		c, err := net.Dial("tcp", s.Addrs()[0].String())
		if err != nil {
			return err
		}
		_ = c.SetDeadline(time.Now().Add(patience))
		br := bufio.NewReader(c)
		for n := range 1 + r.IntN(20) {
			k := kinds[r.IntN(len(kinds))]
			_, err := io.WriteString(c, k.request)
			if r.IntN(20) == 0 {
				break // goes without waiting for its answer
			}
			var resp *http.Response
			if err == nil {
				resp, err = http.ReadResponse(br, nil)
			}
			if err != nil && n > 0 {
				break // it may have rested too long
			}
			if err != nil {
				return err
			}
			if b, err := io.ReadAll(resp.Body); err != nil || string(b) != k.want {
				return fmt.Errorf("%q: got %q, %w", k.request, b, err)
			}
		}
		_ = c.Close()
	}
	return nil
}
