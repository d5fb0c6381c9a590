package server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"
)

// A body sent from its twin is the same body, also to a client that takes it in pieces.
func TestHitFromTwin(t *testing.T) {
	hits := &fixedHits{bodies: map[string][]byte{"/big": bulkBody()}, sent: make(chan string, 1)}
	s := hitServer(t, Options{WriteIdle: steadyLimit}, hits)
	c := slowReader(t, s)
	r := bufio.NewReader(c)
	for i := range 2 * twinOneIn {
		if i == 2*twinOneIn-1 {
			r = bufio.NewReader(&paced{r: c, per: steadyPiece, pause: steadyPause})
		}
		send(t, c, "GET /big HTTP/1.1\r\n"+host+"\r\n")
		if _, got := answer(t, r); got != string(bulkBody()) {
			t.Fatalf("answer %d differs", i)
		}
		if got := <-hits.sent; got != fmt.Sprintf("%d true", bulk) {
			t.Errorf("reported %q", got)
		}
	}
	if len(s.twins.byPtr) != 1 {
		t.Errorf("%d twins, want 1", len(s.twins.byPtr))
	}
}

func TestTwinToStalledReader(t *testing.T) {
	hits := &fixedHits{bodies: map[string][]byte{"/big": bulkBody()}, sent: make(chan string, 1)}
	s := hitServer(t, Options{WriteIdle: 100 * time.Millisecond}, hits)
	s.twins.make(hits.bodies["/big"])
	c := slowReader(t, s)
	send(t, c, "GET /big HTTP/1.1\r\n"+host+"\r\n")
	if got := <-hits.sent; got == fmt.Sprintf("%d true", bulk) || got == "0 false" {
		t.Errorf("reported %q, want a part", got)
	}
	for _, w := range s.twins.byPtr {
		if n := w.refs.Load(); n != 1 {
			t.Errorf("%d references after the answer, want 1", n)
		}
	}
}

func TestTwinBudget(t *testing.T) {
	tw := newTwins(8 * twinMin)
	defer tw.close()
	body := func() []byte { return make([]byte, 2*twinMin) }
	hot := body()
	tw.get(hot, 0)
	for range 100 {
		w := tw.get(hot, 1)
		if w == nil {
			t.Fatal("the hot body has no twin")
		}
		w.release()
	}
	for range 10 {
		tw.get(body(), 0)
	}
	if tw.bytes > tw.budget || tw.byPtr[&hot[0]] == nil {
		t.Errorf("%d bytes of %d, hot one kept: %t", tw.bytes, tw.budget, tw.byPtr[&hot[0]] != nil)
	}
	for name, b := range map[string][]byte{"small": make([]byte, twinMin-1), "large": make([]byte, 3*twinMin)} {
		if tw.get(b, 0); tw.byPtr[&b[0]] != nil {
			t.Errorf("a %s body has a twin", name)
		}
	}
	if part := hot[:len(hot)-1]; tw.get(part, 0) != nil {
		t.Error("a part was taken for the whole")
	}
}

// Twins come and go under their users' hands; a file stays open for as long as it is sent from.
func TestTwinsTogether(t *testing.T) {
	bodies := make(map[string][]byte)
	for i := range 6 {
		bodies[fmt.Sprintf("/%d", i)] = bytes.Repeat([]byte{byte('a' + i)}, twinMin+i)
	}
	s := hitServer(t, Options{TwinBytes: 4*twinMin + 100}, &fixedHits{bodies: bodies})
	var wg sync.WaitGroup
	for i := range 4 {
		c := dial(t, s)
		wg.Go(func() {
			r := bufio.NewReader(c)
			for n := range 200 {
				target := fmt.Sprintf("/%d", (n*(i+1))%6)
				_, _ = io.WriteString(c, "GET "+target+" HTTP/1.1\r\n"+host+"\r\n")
				resp, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if b, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(b, bodies[target]) {
					t.Errorf("%s: %d bytes, %v", target, len(b), err)
					return
				}
			}
		})
	}
	wg.Wait()
}
