package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var payload = bulkBody()

// tortureBodies are in memory: small, of two pieces, with a twin, and beyond one turn.
var tortureBodies = map[string][]byte{
	"/h": []byte("hit"), "/m": payload[:6000], "/twin": payload[:100_000], "/huge": payload[:3<<20],
}

// torturer answers what the loops do not: /n/SIZE with that many bytes, /c/SIZE without a length, /s/SIZE after a while, /up with a tunnel
// that echoes, anything else with what was sent.
func torturer(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != "" {
		echoTunnel(w)
		return
	}
	if body, ok := tortureBodies[r.RequestURI]; ok { // behind one for net/http
		_, _ = w.Write(body)
		return
	}
	kind, size, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	n, err := strconv.Atoi(size)
	if err != nil {
		echo(w, r)
		return
	}
	switch kind {
	case "n":
		w.Header().Set("Content-Length", size)
	case "s":
		select {
		case <-time.After(time.Millisecond):
		case <-r.Context().Done():
		}
	}
	for at := 0; at < n; at += 50_000 {
		if _, err := w.Write(payload[at:min(n, at+50_000)]); err != nil {
			return
		}
	}
}

func echoTunnel(w http.ResponseWriter) {
	nc, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer nc.Close()
	_, _ = io.WriteString(nc, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	_, _ = io.Copy(nc, rw)
}

// tortured is one request and the body of its answer.
type tortured struct {
	request, method string
	want            []byte
}

// torture makes a request of any kind, nine of ten being such that more may follow.
func torture(r *rand.Rand) tortured {
	hits := []string{"/h", "/h", "/h", "/m", "/twin", "/huge"}
	hit := hits[r.IntN(len(hits))]
	size := []int{0, 1, 100, 2048, 2049, 9000, 200_000}[r.IntN(7)]
	sized := fmt.Sprintf("/%c/%d", "ncs"[r.IntN(3)], size)
	body := payload[:size]
	line := func(method, target, fields string) string {
		return method + " " + target + " HTTP/1.1\r\n" + host + fields + "\r\n"
	}
	switch r.IntN(12) {
	case 0, 1, 2, 3:
		return tortured{line("GET", hit, ""), "GET", tortureBodies[hit]}
	case 4:
		return tortured{line("HEAD", hit, ""), "HEAD", nil}
	case 5, 6:
		return tortured{line("GET", sized, ""), "GET", body}
	case 7:
		return tortured{line("HEAD", sized, ""), "HEAD", nil}
	case 8:
		return tortured{line("GET", sized, "Range: bytes=0-1\r\n"), "GET", body}
	case 9:
		return tortured{line("POST", "/p", "Content-Length: 9\r\n") + "GET /h HT", "POST", []byte(`POST /p "GET /h HT"`)}
	case 10:
		return tortured{
			line("POST", "/p", "Transfer-Encoding: chunked\r\n") + "4;x=y\r\nGET \r\n1\r\n/\r\n0\r\nT: x\r\n\r\n", "POST", []byte(`POST /p "GET /"`),
		}
	default:
		long := "/h?" + strings.Repeat("x", r.IntN(14_000)) // below and above the buffer
		return tortured{line("GET", long, "Expect: 100-continue\r\nContent-Length: 1\r\n") + "e\r\n", "GET", []byte("GET " + long + ` "e"`)}
	}
}

// tortureClient is one connection: what it sends, how it cuts that up, and how it ends.
type tortureClient struct {
	nc     *net.TCPConn
	r      *rand.Rand
	script []tortured
	// cut is at which byte it stops sending, -1 if it sends all.
	cut int
}

// run returns what went wrong: an answer that is not what it should be, or none though all was sent.
func (c *tortureClient) run() error {
	defer c.nc.Close()
	var all strings.Builder
	for _, t := range c.script {
		all.WriteString(t.request)
	}
	whole := all.String()
	c.cut = -1
	if c.r.IntN(3) == 0 {
		c.cut = c.r.IntN(len(whole))
		whole = whole[:c.cut]
	}
	how := c.r.IntN(4)
	seed := c.r.Uint64()
	if c.cut >= 0 && how == 0 { // goes without a look at any answer
		c.write(whole, rand.New(rand.NewPCG(seed, 0)))
		_ = c.nc.SetLinger(c.r.IntN(2) - 1)
		return nil
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		c.write(whole, rand.New(rand.NewPCG(seed, 0)))
		if c.cut >= 0 && how == 1 {
			_ = c.nc.CloseWrite()
		}
	}()
	err := c.read()
	if c.cut >= 0 && how > 1 {
		_ = c.nc.SetLinger(0)
	}
	_ = c.nc.Close()
	<-sent
	return err
}

// write sends s in pieces. An error shows at the reader.
func (c *tortureClient) write(s string, r *rand.Rand) {
	for len(s) > 0 {
		n := len(s)
		switch r.IntN(4) {
		case 0:
			n = min(n, 1+r.IntN(20))
		case 1:
			n = min(n, 1+r.IntN(400))
		}
		if _, err := io.WriteString(c.nc, s[:n]); err != nil {
			return
		}
		s = s[n:]
		if r.IntN(3) == 0 {
			time.Sleep(time.Duration(r.IntN(1500)) * time.Microsecond) // disorder is the point; nothing waits for it
		}
	}
}

// read checks the answers. A client that cut something off is through with the last request that was sent whole.
func (c *tortureClient) read() error {
	br := bufio.NewReader(c.nc)
	at := 0
	for i, t := range c.script {
		at += len(t.request)
		if c.cut >= 0 && at > c.cut {
			return nil
		}
		got, err := c.answer(br, t.method)
		if c.cut >= 0 && err != nil {
			return nil // who breaks off may be broken off
		}
		if err != nil || string(got) != string(t.want) {
			return fmt.Errorf("request %d of %d, %.60q: %d bytes %.40q, %w; want %d", i, len(c.script), t.request, len(got), got, err, len(t.want))
		}
	}
	return nil
}

func (c *tortureClient) answer(br *bufio.Reader, method string) ([]byte, error) {
	for {
		resp, err := http.ReadResponse(br, &http.Request{Method: method})
		if err != nil {
			return nil, err
		}
		if resp.StatusCode == http.StatusContinue {
			continue
		}
		if resp.StatusCode != http.StatusOK {
			return nil, errors.New(resp.Status)
		}
		return io.ReadAll(&paced{r: resp.Body, per: 1 + c.r.IntN(256<<10), pause: 0})
	}
}

// Clients that mix everything, in pieces, pipelined, cut anywhere, get the right bytes or go; afterwards nothing is left of them.
func TestTorture(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	files := openFiles(t)
	sent := make(chan string, 1<<16)
	hits := &fixedHits{bodies: tortureBodies, sent: sent}
	s := start(t, Options{H2C: true, Hits: hits, MaxConns: 40, MaxHeaderBytes: 20_000}, http.HandlerFunc(torturer))
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for range 6 {
				if err := tortureOnce(s, r); err != nil {
					t.Errorf("seed %d, client %d: %v", seed, i, err)
				}
			}
		})
	}
	wg.Wait()
	<-s.links.empty()
	for _, l := range s.loops {
		if left := l.seats.all(); len(left) > 0 {
			t.Errorf("%d connections in their seats", len(left))
		}
	}
	if n := s.Stats().Hits; int64(len(sent)) != n {
		t.Errorf("%d hits, %d reported as sent", n, len(sent))
	}
	drain(t, s)
	filesBack(t, files)
}

// Whenever a server under all this ends, nothing is left of its connections. Its limits are so short that clients meet each of them.
func TestTortureEnds(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	files := openFiles(t)
	for i := range 12 {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		sent := make(chan string, 1<<16)
		const short = 20 * time.Millisecond
		s := start(t, Options{
			Hits: &fixedHits{bodies: tortureBodies, sent: sent}, IdleTimeout: short, ReadHeaderTimeout: short, ReadBodyIdle: short, WriteIdle: short,
			DrainIdle: time.Duration(r.IntN(2)*4-1) * time.Millisecond, DrainTimeout: short,
		}, http.HandlerFunc(torturer))
		var wg sync.WaitGroup
		for k := range 32 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(seed, uint64(1000*i+k)))
				for !s.isStopping() {
					_ = tortureOnce(s, r) // how far they get is not the point
				}
			})
		}
		time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond) // any instant will do
		if i%2 == 0 {
			_ = s.Drain(t.Context())
		} else {
			_ = s.Close()
		}
		if n := s.links.count(); n > 0 {
			t.Errorf("seed %d, round %d: %d connections are in the books", seed, i, n)
		}
		if n := s.Stats().Hits; int64(len(sent)) != n {
			t.Errorf("seed %d, round %d: %d hits, %d reported as sent", seed, i, n, len(sent))
		}
		wg.Wait()
	}
	filesBack(t, files)
}

// filesBack waits until no more descriptors are open than there were; Go closes some a little later.
func filesBack(t *testing.T, files int) {
	t.Helper()
	for deadline := time.Now().Add(patience); openFiles(t) > files; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d files are open, %d were", openFiles(t), files)
		}
	}
}

func tortureOnce(s *Server, r *rand.Rand) error {
	nc, err := net.Dial("tcp", s.Addrs()[0].String())
	if err != nil {
		return err
	}
	_ = nc.SetDeadline(time.Now().Add(4 * patience))
	c := &tortureClient{nc: nc.(*net.TCPConn), r: r}
	for range 1 + r.IntN(12) {
		c.script = append(c.script, torture(r))
	}
	switch r.IntN(10) {
	case 0:
		return c.upgrade()
	case 1:
		return c.h2c()
	case 2:
		return c.unread()
	}
	return c.run()
}

// upgrade makes a hit, and then a tunnel of the connection.
func (c *tortureClient) upgrade() error {
	defer c.nc.Close()
	c.write(plain("/h")+"GET /up HTTP/1.1\r\n"+host+"Connection: Upgrade\r\nUpgrade: echo\r\n\r\n", c.r)
	br := bufio.NewReader(c.nc)
	if got, err := c.answer(br, "GET"); err != nil || string(got) != "hit" {
		return fmt.Errorf("before an upgrade: %q, %w", got, err)
	}
	resp, err := http.ReadResponse(br, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("upgrade: %v, %w", resp, err)
	}
	said := string(payload[:5000])
	go func() { c.write(said, rand.New(rand.NewPCG(1, 1))); _ = c.nc.CloseWrite() }()
	if got, err := io.ReadAll(br); err != nil || string(got) != said {
		return fmt.Errorf("tunnel: %d bytes, %w", len(got), err)
	}
	return nil
}

// h2c makes a hit, and then begins with HTTP/2: the server's first frame is its SETTINGS.
func (c *tortureClient) h2c() error {
	defer c.nc.Close()
	_, _ = io.WriteString(c.nc, plain("/h")) // whole: what net/http has seen stays HTTP/1.1
	br := bufio.NewReader(c.nc)
	if got, err := c.answer(br, "GET"); err != nil || string(got) != "hit" {
		return fmt.Errorf("before HTTP/2: %q, %w", got, err)
	}
	c.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", c.r)
	var frame [9]byte
	if _, err := io.ReadFull(br, frame[:]); err != nil || frame[3] != 4 {
		return fmt.Errorf("HTTP/2: %q, %w", frame, err)
	}
	return nil
}

// unread asks for more than fits into sockets, takes a little of it, and goes.
func (c *tortureClient) unread() error {
	defer c.nc.Close()
	c.write(strings.Repeat(plain("/huge"), 3), c.r)
	if c.r.IntN(2) == 0 {
		_ = c.nc.CloseWrite()
	}
	_, err := io.ReadFull(c.nc, make([]byte, c.r.IntN(1<<20)))
	_ = c.nc.SetLinger(c.r.IntN(2) - 1)
	return err
}

// openFiles is how many descriptors the process has.
func openFiles(t testing.TB) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}
