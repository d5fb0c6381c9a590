package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/swrproxy/swrproxy/integration/proc"
)

const residentConf = `listen: 127.0.0.1:0
admin: { listen: 127.0.0.1:0 }
log: { access: false }
memory: { max: 512MiB }
origins:
  app: { url: http://ORIGIN }
`

// resident fills the proxy itself with records of 1 KiB without tags, and tells what it takes of memory for each when it rests.
func (w *workshop) resident(ctx context.Context) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	o := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(answerKibi)}
	defer o.Close()
	go func() { _ = o.Serve(l) }()
	if err := os.MkdirAll(w.dir, 0o755); err != nil {
		return err
	}
	conf := filepath.Join(w.dir, "swrproxy.yaml")
	if err := os.WriteFile(conf, []byte(fill(residentConf, map[string]string{"ORIGIN": l.Addr().String()})), 0o644); err != nil {
		return err
	}
	p, err := proc.Start(ctx, proc.Options{Bin: w.bin, Args: []string{"serve", "--config", conf}, Listeners: 1, Admin: true})
	if err != nil {
		return err
	}
	defer p.Kill()
	return w.residentOf(ctx, p)
}

func answerKibi(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "public, max-age=3600")
	h.Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(kibi)
}

func (w *workshop) residentOf(ctx context.Context, p *proc.Process) error {
	g, _ := errgroup.WithContext(ctx)
	for i := range pacedConns {
		g.Go(func() error { return askPages(strings.TrimPrefix(p.URL(), "http://"), i) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	end, err := atRest(ctx, p)
	w.figures["resident"] = float64(end) / crowdSize
	return err
}

// askPages asks for every page that is the first-th of pacedConns.
func askPages(addr string, first int) error {
	c, err := dial(addr)
	if err != nil {
		return err
	}
	defer c.close()
	for n := first; n < crowdSize; n += pacedConns {
		if _, err := c.get(pagePath(n)); err != nil {
			return err
		}
	}
	return nil
}

// atRest waits until the proxy has given back what it needed while it worked: until its memory has stayed the same for a while.
func atRest(ctx context.Context, p *proc.Process) (int64, error) {
	const look, same, longest = time.Second, 12, 60
	var last int64
	for i, unchanged := 0, 0; ; i++ {
		now, err := p.RSS()
		if err != nil {
			return 0, err
		}
		if unchanged++; now < last*995/1000 || now > last*1005/1000 {
			unchanged, last = 0, now
		}
		if unchanged >= same {
			return now, nil
		}
		if i > longest {
			return 0, fmt.Errorf("resident memory does not come to rest, it is %d bytes", now)
		}
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}
