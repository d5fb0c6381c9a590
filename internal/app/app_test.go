package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swrproxy/swrproxy/cache/disk"
)

func TestServesFromTheCache(t *testing.T) {
	o := newSource(t, cacheable)
	r := start(t, base+"origins: { app: { url: "+o.URL+" } }\n")
	defer r.stop()
	for i := range 3 {
		if status, body, _ := r.get("/a"); status != http.StatusOK || body != "/a" {
			t.Errorf("read %d: %d %q", i, status, body)
		}
	}
	if n := o.calls.Load(); n != 1 {
		t.Errorf("%d calls of the origin, want 1", n)
	}
}

// The lines that programs read to learn the addresses are a promise: their form and order do not change.
func TestAnnouncesAddresses(t *testing.T) {
	o := newSource(t, cacheable)
	r := start(t, "listen: ['127.0.0.1:0', 'localhost:0']\nadmin: { listen: 127.0.0.1:0 }\nhttp: { drain_idle: 0 }\norigins: { app: { url: "+o.URL+" } }\n")
	defer r.stop()
	form := regexp.MustCompile(`\Alistening on http://127\.0\.0\.1:\d+\nlistening on http://\S+:\d+\nadmin on http://127\.0\.0\.1:\d+\nready\n\z`)
	if got := r.out.String(); !form.MatchString(got) {
		t.Errorf("output:\n%s", got)
	}
	urls := r.URLs()
	if len(urls) != 2 || !strings.Contains(r.out.String(), "listening on "+urls[0]+"\n") || !strings.Contains(r.out.String(), "admin on "+r.AdminURL()+"\n") {
		t.Errorf("URLs %v, admin %s", urls, r.AdminURL())
	}
}

func TestReadinessFollowsTheLife(t *testing.T) {
	o := newSource(t, cacheable)
	cfg, err := load(base + "admin: { listen: 127.0.0.1:0 }\norigins: { app: { url: " + o.URL + " } }\n")
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if ok, why := a.ready(); ok || why != "starting" {
		t.Errorf("before Start: %v %q", ok, why)
	}
	if err := a.Start(); err != nil {
		t.Fatal(err)
	}
	if status, _, _ := fetch(t, a.AdminURL()+"/readyz"); status != http.StatusOK {
		t.Errorf("serving: /readyz %d", status)
	}
	if err := a.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	if ok, why := a.ready(); ok || why != "draining" {
		t.Errorf("after Drain: %v %q", ok, why)
	}
}

func TestMetricsShowThePartsAtWork(t *testing.T) {
	o := newSource(t, cacheable)
	r := start(t, base+"admin: { listen: 127.0.0.1:0 }\norigins: { app: { url: "+o.URL+" } }\n")
	defer r.stop()
	r.get("/a")
	r.hitOnOneConnection("/a")
	_, text, _ := fetch(t, r.AdminURL()+"/metrics")
	for _, want := range []string{
		"swrproxy_connections_total ", "swrproxy_short_path_total 1", `swrproxy_refused_total{reason="`,
		`swrproxy_build_info{`, `version="test"`, "swrproxy_waiting 0", `swrproxy_store_max_bytes{tier="memory"} 1.6777216e+07`,
		fmt.Sprintf(`swrproxy_origin_up{origin="app",url="%s"} 1`, o.URL),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
}

// hitOnOneConnection asks for a stored page without asking to close, as browsers do.
func (r *running) hitOnOneConnection(path string) {
	r.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(r.URLs()[0], "http://"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, c.RemoteAddr())
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	if !strings.Contains(resp.Header.Get("Cache-Status"), "hit") {
		r.t.Errorf("Cache-Status %q", resp.Header.Get("Cache-Status"))
	}
}

func TestTakenAddressLeavesNothingOpen(t *testing.T) {
	o := newSource(t, cacheable)
	for name, file := range map[string]string{
		"listener": "listen: " + o.Listener.Addr().String() + "\n",
		"admin":    base + "admin: { listen: '" + o.Listener.Addr().String() + "' }\n",
	} {
		cfg, err := load(file + "origins: { app: { url: " + o.URL + " } }\n")
		if err != nil {
			t.Fatal(err)
		}
		out := &buffer{}
		a, err := New(cfg, Options{Out: out})
		if err != nil {
			t.Fatal(err)
		}
		err = a.Start() // goleak tells what it left running
		if err == nil || !strings.Contains(err.Error(), o.Listener.Addr().String()) {
			t.Errorf("%s: error %v", name, err)
		}
		if out.String() != "" {
			t.Errorf("%s: printed %q", name, out)
		}
	}
}

func TestNewTellsWhatCannotBeBuilt(t *testing.T) {
	for name, file := range map[string]string{
		"origin's CA":  "origins: { a: { url: https://h, tls: { ca: /does/not/exist.pem } } }\n",
		"certificates": "tls: { cert: /does/not/exist.pem, key: /does/not/exist.pem }\norigins: { a: { url: http://h } }\n",
	} {
		cfg, err := load(base + file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := New(cfg, Options{}); err == nil || !strings.Contains(err.Error(), "/does/not/exist.pem") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// A request under way when the drain begins gets its whole answer; then the address is free.
func TestDrainFinishesRequests(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	o := newSource(t, func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-release
		cacheable(w, r)
	})
	r := start(t, base+"origins: { app: { url: "+o.URL+" } }\n")
	got := make(chan string)
	go func() {
		status, body, _ := r.get("/slow")
		got <- fmt.Sprint(status, body)
	}()
	<-arrived
	drained := make(chan error)
	go func() { drained <- r.Drain(context.Background()) }()
	close(release)
	if answer := <-got; answer != "200/slow" {
		t.Errorf("answer %q", answer)
	}
	if err := <-drained; err != nil {
		t.Errorf("drain: %v", err)
	}
	if _, err := net.Dial("tcp", strings.TrimPrefix(r.URLs()[0], "http://")); err == nil {
		t.Error("still listening")
	}
}

// startHanging starts the proxy with a request under way that its origin does not answer.
func startHanging(t *testing.T, conf string) (*running, net.Conn) {
	t.Helper()
	arrived := make(chan struct{})
	o := newSource(t, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	})
	r := start(t, conf+"origins: { app: { url: "+o.URL+" } }\n")
	c, err := net.Dial("tcp", strings.TrimPrefix(r.URLs()[0], "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	fmt.Fprint(c, "GET /hangs HTTP/1.1\r\nHost: h\r\n\r\n")
	<-arrived
	return r, c
}

func TestDrainIsCutByItsContext(t *testing.T) {
	r, c := startHanging(t, base)
	ctx, cut := context.WithCancel(context.Background())
	cut()
	if err := r.Drain(ctx); !errors.Is(err, ErrCut) {
		t.Errorf("drain: %v, want ErrCut", err)
	}
	_, _ = bufio.NewReader(c).ReadByte() // returns: the connection is closed
}

// Where requests have to be cut at http.drain, fills get no time beyond it.
func TestDrainCutsFillsToo(t *testing.T) {
	r, _ := startHanging(t, "listen: 127.0.0.1:0\nhttp: { drain_idle: 0, drain: 50ms }\n")
	began := time.Now()
	if err := r.Drain(context.Background()); err != nil {
		t.Errorf("drain: %v", err)
	}
	if took := time.Since(began); took >= fillGrace {
		t.Errorf("took %v, with a limit of 50 ms", took)
	}
}

func TestWarningsAreLogged(t *testing.T) {
	o := newSource(t, cacheable)
	r := start(t, base+"origins: { app: { url: "+o.URL+" } }\nrules: [{ ttl: 1m, override: true }]\n")
	r.stop()
	if !strings.Contains(r.log.String(), "rules[0].override") {
		t.Errorf("no warning about a forced lifetime:\n%s", r.log)
	}
}

// Two processes with the same directory fetch a key one after the other.
func TestFileKeeperIsShared(t *testing.T) {
	var now, most atomic.Int64
	arrived, release := make(chan struct{}, 2), make(chan struct{})
	o := newSource(t, func(w http.ResponseWriter, r *http.Request) {
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(-1)
		arrived <- struct{}{}
		<-release
		cacheable(w, r)
	})
	settings := base + "fill: { keeper: file, path: " + t.TempDir() + " }\norigins: { app: { url: " + o.URL + " } }\n"
	a, b := start(t, settings), start(t, settings)
	defer a.stop()
	defer b.stop()
	var done sync.WaitGroup
	read := func(r *running) {
		if status, body, _ := r.get("/a", "Host", "site.test"); status != http.StatusOK || body != "/a" {
			t.Errorf("%d %q", status, body)
		}
	}
	done.Go(func() { read(a) })
	<-arrived
	done.Go(func() { read(b) })
	awaitWaiting(t, b)
	close(release)
	done.Wait()
	if o.calls.Load() != 2 || most.Load() != 1 {
		t.Errorf("%d calls, %d at once; want one for each memory tier, one at a time", o.calls.Load(), most.Load())
	}
}

// awaitWaiting returns when a reader of r waits for somebody else's fill.
func awaitWaiting(t *testing.T, r *running) {
	t.Helper()
	for limit := time.Now().Add(patience); r.cache.Stats().Waiting == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("nobody waits")
		}
	}
}

func TestFileKeeperWithoutADirectory(t *testing.T) {
	cfg, err := load(base + "fill: { keeper: file, path: /dev/null/x }\norigins: { app: { url: http://h } }\n")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(cfg, Options{}); err == nil || !strings.Contains(err.Error(), "/dev/null/x") {
		t.Errorf("error %v", err)
	}
}

// DSK-07: what was stored before a restart is served with the origin down.
func TestDiskTierSurvivesARestart(t *testing.T) {
	o := newSource(t, cacheable)
	settings := base + "admin: { listen: 127.0.0.1:0 }\ndisk: { path: " + t.TempDir() + ", max: 64MiB }\norigins: { app: { url: " + o.URL + " } }\n"
	r := start(t, settings)
	r.get("/a", "Host", "site.test") // the port, which is part of the key, changes
	if _, text, _ := fetch(t, r.AdminURL()+"/metrics"); !strings.Contains(text, `swrproxy_store_max_bytes{tier="disk"} 6.7108864e+07`) ||
		!strings.Contains(text, "swrproxy_disk_failing 0") {
		t.Error("metrics lack the disk tier")
	}
	r.stop()
	o.Close()
	r = start(t, settings)
	defer r.stop()
	if status, body, how := r.get("/a", "Host", "site.test"); status != http.StatusOK || body != "/a" || !strings.Contains(how, "hit") {
		t.Errorf("after the restart: %d %q %q", status, body, how)
	}
}

// A drain that is cut from its first moment still writes what waits.
func TestACutDrainWritesWhatWaits(t *testing.T) {
	o := newSource(t, cacheable)
	settings := base + "disk: { path: " + t.TempDir() + ", max: 64MiB }\norigins: { app: { url: " + o.URL + " } }\n"
	r := start(t, settings)
	const n = 50
	for i := range n {
		r.get(fmt.Sprint("/", i), "Host", "site.test")
	}
	cut, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Drain(cut); !errors.Is(err, ErrCut) {
		t.Errorf("drain: %v, want ErrCut", err)
	}
	o.Close()
	r = start(t, settings)
	defer r.stop()
	for i := range n {
		if status, _, how := r.get(fmt.Sprint("/", i), "Host", "site.test"); status != http.StatusOK || !strings.Contains(how, "hit") {
			t.Errorf("%d: %d %q after the restart", i, status, how)
		}
	}
}

func TestDiskPathInUse(t *testing.T) {
	o := newSource(t, cacheable)
	dir := t.TempDir()
	settings := base + "disk: { path: " + dir + " }\norigins: { app: { url: " + o.URL + " } }\n"
	r := start(t, settings)
	defer r.stop()
	cfg, err := load(settings)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(cfg, Options{}); !errors.Is(err, disk.ErrInUse) || !strings.Contains(err.Error(), dir) {
		t.Errorf("error %v", err)
	}
}
