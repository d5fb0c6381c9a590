package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// origin is what all servers fetch from: an nginx on the generator's core for everything that has to be fast, and a handler of this
// process for answers that never come.
type origin struct {
	fast     *child
	addr     string // of the fast one
	hanging  *http.Server
	hangAddr string
}

// originConf answers from memory what is small, and files from the page cache.
const originConf = `worker_processes 1;
worker_rlimit_nofile 65536;
daemon off;
error_log stderr crit;
pid %[1]s/origin.pid;
events { worker_connections 8192; }
http {
  access_log off;
  keepalive_requests 100000000;
  keepalive_timeout 300s;
  sendfile on;
  tcp_nopush on;
  open_file_cache max=100;
  client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  server {
    listen %[2]s backlog=4096;
    add_header Cache-Control "max-age=3600";
    location / { default_type text/plain; add_header Cache-Control "max-age=3600"; add_header ETag '"v1"'; return 200 "%[3]s"; }
    location /files/ { default_type application/octet-stream; alias %[1]s/files/; }
    location = /count { access_log off; stub_status; }
  }
}
`

// kibi is a body of 1 KiB.
var kibi = bytes.Repeat([]byte("swrproxy"), 128)

func openOrigin(ctx context.Context, dir string, core int) (*origin, error) {
	o := &origin{}
	dir = filepath.Join(dir, "origin")
	if err := writeFiles(dir); err != nil {
		return nil, err
	}
	var err error
	if o.addr, err = freeAddr(); err != nil {
		return nil, err
	}
	conf := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, originConf, dir, o.addr, kibi), 0o644); err != nil {
		return nil, err
	}
	if o.fast, err = start(dir, core, nil, "nginx", "-p", dir, "-c", conf); err != nil {
		return nil, err
	}
	if err := o.fast.listens(ctx, o.addr); err != nil {
		o.fast.stop()
		return nil, err
	}
	return o, o.hang()
}

// writeFiles makes the large bodies. nginx drops root for an account that must be able to read them.
func writeFiles(dir string) error {
	if err := os.MkdirAll(filepath.Join(dir, "files"), 0o755); err != nil {
		return err
	}
	for name, kib := range map[string]int{"100k": 100, "10m": 10 << 10} {
		if err := os.WriteFile(filepath.Join(dir, "files", name), bytes.Repeat(kibi, kib), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// hang starts the origin that answers each path once, with a second of freshness, and is silent from then on.
func (o *origin) hang() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var seen sync.Map
	o.hangAddr = l.Addr().String()
	o.hanging = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, again := seen.LoadOrStore(r.URL.Path, true); again {
			<-r.Context().Done()
			return
		}
		h := w.Header()
		h.Set("Cache-Control", "max-age=1, stale-while-revalidate=3600")
		h.Set("Content-Type", "text/plain")
		h.Set("ETag", `"v1"`)
		_, _ = w.Write(kibi)
	})}
	go func() { _ = o.hanging.Serve(l) }()
	return nil
}

func (o *origin) close() {
	o.fast.stop()
	_ = o.hanging.Close()
}

var handled = regexp.MustCompile(`(?m)^ \d+ \d+ (\d+)`)

// count is how many requests the fast origin has answered, this one included.
func (o *origin) count(ctx context.Context) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+o.addr+"/count", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	m := handled.FindSubmatch(b)
	if m == nil {
		return 0, fmt.Errorf("origin's counter says %q", b)
	}
	return strconv.ParseInt(string(m[1]), 10, 64)
}
