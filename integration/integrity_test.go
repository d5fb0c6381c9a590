package integration

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Promise: every body that ends is the right one, whoever joins or leaves on the way.

// sealed is a body that names its path and carries its own hash, in several chunks.
func sealed(path string) string { return sealText(strings.Repeat("body of "+path+"\n", 500)) }

func sealText(text string) string {
	sum := sha256.Sum256([]byte(text))
	return text + hex.EncodeToString(sum[:])
}

// checkSeal says what is wrong with a body that should be sealed(path).
func checkSeal(path, body string) error {
	text, seal := body[:max(0, len(body)-64)], body[max(0, len(body)-64):]
	sum := sha256.Sum256([]byte(text))
	switch {
	case hex.EncodeToString(sum[:]) != seal:
		return fmt.Errorf("body of %s is damaged (%d bytes)", path, len(body))
	case !strings.HasPrefix(text, "body of "+path+"\n"):
		return fmt.Errorf("body of another path for %s: %s", path, clip(text))
	}
	return nil
}

// sealedInPieces sends a sealed body piece by piece, so that readers join and leave in its middle.
func sealedInPieces(w http.ResponseWriter, r *http.Request, _ int) {
	w.Header().Set("Cache-Control", "max-age=1, stale-while-revalidate=60")
	body := sealed(r.URL.Path)
	for len(body) > 0 {
		n := min(len(body), 3000)
		if _, err := io.WriteString(w, body[:n]); err != nil {
			return
		}
		w.(http.Flusher).Flush()
		body = body[n:]
		time.Sleep(2 * time.Millisecond)
	}
}

// LCK-03: 40 keys, 12 clients each, a third of which leave at some point.
func TestBodiesAreRightWhileReadersComeAndGo(t *testing.T) {
	t.Parallel()
	const keys, clients = 40, 12
	o := newOrigin(t).onAny(sealedInPieces)
	p := before(t, o)
	var done sync.WaitGroup
	slots := make(chan struct{}, 120)
	for i := range keys * clients {
		path := fmt.Sprintf("/sealed/%d", i%keys)
		chance := rand.New(rand.NewPCG(3, uint64(i)))
		leaves, at := chance.IntN(3) == 0, time.Duration(chance.IntN(30))*time.Millisecond
		slots <- struct{}{}
		c := dial(t, p.Addr())
		done.Go(func() {
			defer func() { <-slots }()
			defer c.Close()
			if leaves {
				time.AfterFunc(at, func() { _ = c.Close() })
			}
			r := c.send(request("GET", path))
			if leaves && (r.Err != nil || r.BodyErr != nil) {
				return
			}
			if r.Err != nil || r.BodyErr != nil || r.Status != http.StatusOK {
				t.Errorf("%s: status %d, %v, %v", path, r.Status, r.Err, r.BodyErr)
				return
			}
			if err := checkSeal(path, r.Body); err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
}

// LCK-02: a body whose first reader left is stored whole or not at all.
func TestABodyWhoseReaderLeftIsNotStoredInPart(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	p := before(t, o)
	g := newGate(t)
	o.on("/left", halves(g, "Cache-Control: max-age=86400"), halves(g, "Cache-Control: max-age=86400"))
	c := dial(t, p.Addr())
	c.start(t, request("GET", "/left"), 5)
	_ = c.Close()
	g.open()
	p.get("/left").want(t, http.StatusOK, "first half, second half")
	p.get("/left").want(t, http.StatusOK, "first half, second half")
}

// LCK-18: a reader who comes right after the first one has left gets a good answer.
func TestAReaderAfterTheFirstOneLeft(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	p := before(t, o)
	g := newGate(t)
	o.on("/next", g.hold(page("Cache-Control: max-age=60")))
	c := dial(t, p.Addr())
	c.write(t, request("GET", "/next"))
	o.await("/next", 1)
	_ = c.Close()
	next := background(t, p, 1, request("GET", "/next"))
	g.open()
	if r := next()[0]; r.Err != nil || r.Status != http.StatusOK {
		t.Errorf("status %d, %v", r.Status, r.Err)
	}
	if n := o.count("/next"); n > 2 {
		t.Errorf("origin saw %d requests", n)
	}
}
