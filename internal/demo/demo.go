package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/swrproxy/swrproxy/internal/app"
	"github.com/swrproxy/swrproxy/internal/config"
)

// Default addresses; a taken one is replaced by a free port.
const (
	defaultListen = "127.0.0.1:8080"
	defaultAdmin  = "127.0.0.1:8081"
)

// Options are the settings of a [Demo].
type Options struct {
	// Listen and Admin are the proxy's addresses. "" means 127.0.0.1:8080 and :8081, or a free port where those are taken.
	Listen, Admin string
	// Out gets the addresses and lines to try, Log the proxy's log lines. Nil drops them.
	Out, Log io.Writer
	// Version is shown in metrics.
	Version string
}

// Demo is the origin and the proxy, running. Safe for concurrent use.
type Demo struct {
	*app.App
	origin    *http.Server
	originURL string
	served    chan struct{}
}

// Start starts both and prints how to use them.
func Start(o Options) (*Demo, error) {
	if o.Out == nil {
		o.Out = io.Discard
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("demo origin: %w", err)
	}
	d := newDemo(ln)
	if err := d.startProxy(o); err != nil {
		return nil, errors.Join(err, d.stopOrigin())
	}
	d.explain(o.Out)
	return d, nil
}

func newDemo(ln net.Listener) *Demo {
	d := &Demo{originURL: "http://" + ln.Addr().String(), served: make(chan struct{})}
	d.origin = &http.Server{Handler: NewOrigin(d.originURL), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(d.served)
		_ = d.origin.Serve(ln) // returns when stopOrigin closes it
	}()
	return d
}

func (d *Demo) startProxy(o Options) error {
	cfg, err := d.settings(o)
	if err != nil {
		return err
	}
	d.App, err = app.New(cfg, app.Options{Out: o.Out, Log: o.Log, Version: o.Version})
	if err != nil {
		return err
	}
	return d.Start()
}

// settings are what the demo needs to be watched with patience for seconds, not minutes.
func (d *Demo) settings(o Options) (*config.Config, error) {
	const file = `
memory: { max: 64MiB }
log: { level: warn, format: console }
fill: { tenure: 5s, backoff: { first: 1s, max: 8s } }
rules:
  # A browser's reload asks for validation; here it should show what other readers get.
  - { name: demo, request_directives: ignore }
`
	return config.Parse(config.Options{File: "demo", Flags: []config.Flag{
		{Name: "--listen", Path: "listen", Values: []string{orFree(o.Listen, defaultListen)}},
		{Name: "--admin", Path: "admin.listen", Values: []string{orFree(o.Admin, defaultAdmin)}},
		{Name: "--origin", Path: config.PathOrigin, Values: []string{d.originURL}},
	}}, []byte(file))
}

// orFree returns addr if the user chose it, else def, or a free port where def is taken.
func orFree(addr, def string) string {
	if addr != "" {
		return addr
	}
	ln, err := net.Listen("tcp", def)
	if err != nil {
		return "127.0.0.1:0"
	}
	_ = ln.Close() // nothing was accepted
	return def
}

// OriginURL is the origin's own base.
func (d *Demo) OriginURL() string { return d.originURL }

// Drain ends the proxy as [app.App.Drain] does, and then the origin.
func (d *Demo) Drain(ctx context.Context) error {
	return errors.Join(d.App.Drain(ctx), d.stopOrigin())
}

func (d *Demo) stopOrigin() error {
	err := d.origin.Close()
	<-d.served
	return err
}

func (d *Demo) explain(w io.Writer) {
	proxy, admin := d.URLs()[0], d.AdminURL()
	fmt.Fprintf(w, `
The demo origin, slow on purpose, is on %[2]s. Open %[1]s/ in a browser, or try in another terminal:

  curl -i %[1]s/news       # the first reader waits a second, the next ones do not; look at Cache-Status
  sleep 6; curl -i %[1]s/news; sleep 2; curl -i %[1]s/news
                                          # expired: the old version at once, then the new one
  for i in 1 2 3 4; do curl -s %[1]s/report & done; wait
                                          # four readers, one fetch
  curl '%[2]s/_origin/fail?for=20s'    # the origin fails; /news goes on, /strict does not
  curl '%[2]s/_origin/hang?for=20s'    # it hangs; nobody who may have the old version waits
  curl '%[2]s/_origin/recover'
  curl -s %[3]s/metrics | grep ^swrproxy_

Pages:
`, proxy, d.originURL, admin)
	for _, p := range pages() {
		fmt.Fprintf(w, "  %-9s %6s  %-60s %s\n", p.Path, p.Delay, orDash(p.CacheControl), p.About)
	}
	fmt.Fprintln(w, "\nCtrl-C ends it.")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
