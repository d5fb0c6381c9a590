package server

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// responders are handlers that use a ResponseWriter in every way that there is.
var responders = map[string]http.HandlerFunc{
	"nothing":     func(http.ResponseWriter, *http.Request) {},
	"short":       func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") },
	"at the edge": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(pieces[:unmeasured]) },
	"beyond it":   func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(pieces[:unmeasured+1]) },
	"large":       func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(pieces[:300<<10]) },
	"pieces":      func(w http.ResponseWriter, _ *http.Request) { writePieces(w, 700, 10) },
	"typed": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "a/b")
		writePieces(w, 10, 3)
	},
	"encoded": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "x")
		writePieces(w, 10, 3)
	},
	"html":    func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html><body>") },
	"dated":   func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Date", "today"); writePieces(w, 1, 1) },
	"no date": func(w http.ResponseWriter, _ *http.Request) { w.Header()["Date"] = nil; writePieces(w, 1, 1) },
	"length": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "7000")
		writePieces(w, 700, 10)
	},
	"too short": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "70")
		writePieces(w, 60, 1)
	},
	"too long": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "5")
		writePieces(w, 5, 2)
	},
	"status": func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(404)
		w.WriteHeader(200)
		writePieces(w, 5, 1)
	},
	"odd status": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(777) },
	"204": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "3")
		w.WriteHeader(204)
		writePieces(w, 3, 1)
	},
	"304": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "a/b")
		w.Header().Set("Etag", `"e"`)
		w.WriteHeader(304)
	},
	"hints": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</s>")
		w.WriteHeader(103)
		writePieces(w, 3, 1)
	},
	"close": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		writePieces(w, 3, 1)
	},
	"options": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "x, Close")
		writePieces(w, 3, 1)
	},
	"keep-alive": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "keep-alive")
		writePieces(w, 3, 1)
	},
	"identity": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Transfer-Encoding", "identity")
		writePieces(w, 3, 1)
	},
	"chunked": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Transfer-Encoding", "chunked")
		writePieces(w, 3, 1)
	},
	"odd names": func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["a b"] = []string{"1"}
		w.Header()["lower"] = []string{" 2\r\nX: y "}
	},
	"late field": func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(200)
		w.Header().Set("Late", "1")
		writePieces(w, 3, 1)
	},
	"trailer": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "x-sum, Content-Length")
		writePieces(w, 3, 1)
		w.Header().Set("X-Sum", "6")
	},
	"late trailer": func(w http.ResponseWriter, _ *http.Request) {
		flushed(w)
		writePieces(w, 3, 1)
		w.Header().Set(http.TrailerPrefix+"X-Sum", "6")
	},
	"flush":       func(w http.ResponseWriter, _ *http.Request) { writePieces(w, 3, 1); flushed(w); writePieces(w, 4, 1) },
	"flush first": func(w http.ResponseWriter, _ *http.Request) { flushed(w); writePieces(w, 4, 1) },
	"send now": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "9")
		w.Header().Set("Content-Type", "a/b")
		sentNow(w)
		for range 3 {
			writePieces(w, 3, 1)
			sentNow(w)
			sentNow(w)
		}
	},
	"send now without length": func(w http.ResponseWriter, _ *http.Request) {
		writePieces(w, 3, 1)
		sentNow(w)
		writePieces(w, 3000, 2)
		sentNow(w)
	},
	"abort": func(w http.ResponseWriter, _ *http.Request) {
		writePieces(w, 5<<10, 1)
		flushed(w)
		panic(http.ErrAbortHandler)
	},
	"abort unseen": func(w http.ResponseWriter, _ *http.Request) { writePieces(w, 5, 1); panic(http.ErrAbortHandler) },
	"several": func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["X"] = []string{"2", "1"}
		w.Header().Add("A", "z")
		writePieces(w, 3, 1)
	},
}

var pieces = bulkBody()[:1<<20]

func writePieces(w http.ResponseWriter, size, n int) {
	for i := range n {
		_, _ = w.Write(pieces[i*size : (i+1)*size])
	}
}

func flushed(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

func sentNow(w http.ResponseWriter) {
	if w, ok := w.(interface{ SendNow() }); ok {
		w.SendNow()
	}
}

// A request that goes to the handler directly is answered with the bytes that net/http gives. Only a Content-Length that is none is not passed on.
func TestDirectAgrees(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, pieces, 0o600); err != nil {
		t.Fatal(err)
	}
	all := map[string]http.HandlerFunc{
		"file": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1048576")
			copyFile(w, file)
		},
		"chunked file": func(w http.ResponseWriter, _ *http.Request) { copyFile(w, file) },
	}
	for name, h := range responders {
		all[name] = h
	}
	mux := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { all[strings.ReplaceAll(r.URL.Path[1:], "_", " ")](w, r) })
	direct := start(t, Options{Hits: &fixedHits{}}, mux)
	ordinary := start(t, Options{}, mux)
	for name := range all {
		t.Run(name, func(t *testing.T) {
			for _, method := range []string{"GET", "HEAD"} {
				request := method + " /" + strings.ReplaceAll(name, " ", "_") + " HTTP/1.1\r\n" + host + "\r\n"
				want, got := undated(exchangeTwo(t, ordinary, request)), undated(exchangeTwo(t, direct, request))
				if got != want {
					t.Errorf("%s:\n%.2000q\nnet/http:\n%.2000q", method, got, want)
				}
			}
		})
	}
}

// exchangeTwo sends a request and, when its answer has begun, one that makes the server close.
func exchangeTwo(t *testing.T, s *Server, request string) string {
	t.Helper()
	c := dial(t, s)
	send(t, c, request)
	r := bufio.NewReader(c)
	_, _ = r.Peek(1)
	_, _ = io.WriteString(c, "GET /nothing HTTP/1.1\r\n"+host+"Connection: close\r\n\r\n") // the server may have closed
	b, err := io.ReadAll(r)
	if err != nil && !strings.Contains(err.Error(), "reset") {
		t.Fatal(err)
	}
	return string(b)
}

var dateLine = regexp.MustCompile(`(?m)^Date: [A-Z][a-z]{2}, .*$`)

func undated(s string) string { return dateLine.ReplaceAllString(s, "Date: …") }

func copyFile(w http.ResponseWriter, name string) {
	f, err := os.Open(name)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	_, _ = io.Copy(w, f)
}

// The handler sees the request that net/http would make.
func TestDirectRequest(t *testing.T) {
	seen := make(chan *http.Request, 1)
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.Clone(r.Context()) })
	direct, ordinary := start(t, Options{Hits: &fixedHits{}}, h), start(t, Options{}, h)
	for _, head := range []string{
		"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"HEAD /a/(b)'!*,=@$~:&+;x=1?q=1&r=%?? HTTP/1.1\r\nhost: A.test:80\r\n\r\n",
		"GET //a//b?c=d HTTP/1.1\r\nHost: [::1]:80\r\nAccept: a\r\nACCEPT: b\r\nx-One: 1\r\nX_two: \t2 \r\nCookie: a=b\r\n\r\n",
		"GET /? HTTP/1.1\r\nHost: a.test\r\nCache-Control: no-cache\r\nEmpty:\r\n\r\n",
		"GET /p HTTP/1.1\r\nHost: a.test\r\nPragma: no-cache\r\n\r\n",
	} {
		var got [2]*http.Request
		for i, s := range []*Server{direct, ordinary} {
			send(t, dial(t, s), head)
			got[i] = <-seen
		}
		if a, b := describe(got[0]), describe(got[1]); a != b {
			t.Errorf("%q:\n%s\nnet/http:\n%s", head, a, b)
		}
	}
}

func describe(r *http.Request) string {
	var b strings.Builder
	_ = r.Header.Write(&b)
	return strings.Join([]string{r.Method, r.URL.String(), r.URL.Path, r.URL.RawPath, r.URL.RawQuery, r.Host, r.RequestURI, r.Proto, b.String()}, "|")
}

// SendNow waits neither for the handler's return nor for a client that takes nothing.
func TestSendNow(t *testing.T) {
	arrived, full := make(chan struct{}), make(chan struct{})
	const many, part = 10_000, 4 << 10 // more than sockets hold
	s := start(t, Options{Hits: &fixedHits{}}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(many*part))
		unread := true
		for n := range many {
			_, _ = w.Write(pieces[:part])
			sentNow(w)
			switch {
			case n == 0:
				<-arrived
			case unread && len(w.(*response).out) > 0:
				unread = false
				close(full)
			}
		}
	}))
	c := dial(t, s)
	send(t, c, "GET / HTTP/1.1\r\n"+host+"\r\n")
	r := bufio.NewReader(c)
	if _, err := r.Peek(1); err != nil {
		t.Fatal(err)
	}
	close(arrived)
	<-full
	if _, body := answer(t, r); len(body) != many*part {
		t.Errorf("%d bytes came, want %d", len(body), many*part)
	}
}

// A client that goes ends its request; one that only ends its side behind another request does not.
func TestDirectClientGone(t *testing.T) {
	began, ended := make(chan struct{}), make(chan error, 1)
	s := start(t, Options{Hits: &fixedHits{}}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		select {
		case <-r.Context().Done():
			ended <- nil
		case <-time.After(patience):
			ended <- errors.New("the request goes on")
		}
	}))
	c := dial(t, s)
	send(t, c, "GET / HTTP/1.1\r\n"+host+"\r\n")
	<-began
	_ = c.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A drain lets requests on workers finish, on connections that net/http takes for idle, too.
func TestDrainFinishesDirect(t *testing.T) {
	began, goOn := make(chan struct{}), make(chan struct{})
	s := start(t, Options{Hits: &fixedHits{}, DrainIdle: -1}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(began)
			<-goOn
		}
		_, _ = io.WriteString(w, r.Method)
	}))
	c := dial(t, s)
	r := bufio.NewReader(c)
	send(t, c, "POST /p HTTP/1.1\r\n"+host+"Content-Length: 1\r\n\r\nx") // makes net/http know the connection
	if _, got := answer(t, r); got != "POST" {
		t.Fatal(got)
	}
	send(t, c, "GET /slow HTTP/1.1\r\n"+host+"\r\n")
	<-began
	drained := make(chan struct{})
	go func() { defer close(drained); drain(t, s) }()
	<-s.stopping
	close(goOn)
	if resp, got := answer(t, r); got != "GET" || resp.StatusCode != http.StatusOK {
		t.Errorf("%d %q", resp.StatusCode, got)
	}
	<-drained
}

// A write that its client breaks off tells how much of it went.
func TestDirectWriteCounts(t *testing.T) {
	type result struct {
		n   int
		err error
	}
	wrote := make(chan result, 1)
	s := start(t, Options{Hits: &fixedHits{}}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(bulk))
		n, err := w.Write(bulkBody())
		wrote <- result{n, err}
	}))
	c := slowReader(t, s)
	send(t, c, "GET / HTTP/1.1\r\n"+host+"\r\n")
	const took = 64 << 10
	if _, err := io.ReadFull(c, make([]byte, took)); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if got := <-wrote; got.err == nil || got.n < took/2 || got.n >= bulk {
		t.Errorf("%d bytes, %v; want a part and an error", got.n, got.err)
	}
}
