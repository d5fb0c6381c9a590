package origin

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestBooksBalance throws every kind of end at one pool from many goroutines: whatever happens, nothing stays in flight,
// and each failure has a class. The seed is printed.
func TestBooksBalance(t *testing.T) {
	t.Run("bounded", func(t *testing.T) { booksBalance(t, 8) })
	t.Run("unbounded", func(t *testing.T) { booksBalance(t, 0) })
}

func booksBalance(t *testing.T, maxConns int) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/reset":
			panic(http.ErrAbortHandler)
		case "/short":
			w.Header().Set("Content-Length", "9")
			io.WriteString(w, "abc")
		case "/hang":
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return // net/http ends a request's context only once its body is read
			}
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		default:
			io.Copy(w, r.Body)
		}
	}
	one, two := newOrigin(t, handler), newOrigin(t, handler)
	one.Config.ErrorLog, two.Config.ErrorLog = discardLog, discardLog
	p := newPool(t, Config{Health: Health{FailFor: time.Millisecond}, Pool: PoolConfig{MaxConns: maxConns}}, one.URL, two.URL, "http://127.0.0.1:1")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(g)))
			for range 25 {
				anyExchange(t, p, rnd)
			}
		})
	}
	wg.Wait()
	for _, s := range p.Status() {
		if s.InFlight != 0 {
			t.Errorf("%s: %d in flight", s.URL, s.InFlight)
		}
		if s.Failures[ClassUnknown] != 0 {
			t.Errorf("%s: %d failures without a class", s.URL, s.Failures[ClassUnknown])
		}
	}
}

func anyExchange(t *testing.T, p *Pool, rnd *rand.Rand) {
	paths := []string{"/reset", "/short", "/hang", "/echo", "/echo"}
	path := paths[rnd.IntN(len(paths))]
	limit := time.Minute
	if path == "/hang" || rnd.IntN(4) == 0 {
		limit = time.Duration(rnd.IntN(3)) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	r := inbound("GET", path, nil)
	if rnd.IntN(2) == 0 {
		r = inbound("POST", path, strings.NewReader(strings.Repeat("x", rnd.IntN(1<<16))))
	}
	resp, err := roundTrip(p, r.WithContext(ctx))
	if err == nil {
		if rnd.IntN(4) > 0 {
			_, err = io.Copy(io.Discard, resp.Body)
		}
		resp.Body.Close()
	}
	if _, ok := err.(*Error); err != nil && !ok {
		t.Errorf("%s: %T %v", path, err, err)
	}
}
