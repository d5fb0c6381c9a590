package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// Names of the servers.
const (
	ours    = "swrproxy"
	nginx   = "nginx"
	varnish = "varnish"
)

// server is one of those that are measured.
type server struct {
	name string
	proc *child
	// plain and secure are the addresses for http and https, secure "" if there is none.
	plain, secure string
	// admin is the address of the admin listener, "" if there is none.
	admin string
	// conf is the configuration, for the page.
	conf string
}

// place is where servers are started.
type place struct {
	// ram and disk are directories, in memory and on a disk.
	ram, disk string
	core      int
	origin    *origin
	cert, key string
	bin       string
}

// nginxConf are the settings that make nginx's hits fast: one worker, files kept open, cache in memory; and its misses: connections to
// the origin kept. A stale answer is served while it is refreshed, as the origin's own Cache-Control asks. How bodies are sent was chosen
// for each size by measuring what costs least; the comments in it say so to readers of the page too.
const nginxConf = `worker_processes 1;
worker_rlimit_nofile 65536;
daemon off;
error_log stderr crit;
pid RAM/nginx.pid;
events { worker_connections 8192; use epoll; }
http {
  access_log off;
  # Head and body in one writev: at 1 KiB a fifth less CPU than sendfile.
  sendfile off;
  output_buffers 1 256k;
  # A corked socket keeps back the end of a body, less than the 64 KiB of a loopback segment, until the receiver's delayed
  # acknowledgement 40 ms later: with tcp_nopush, 100 KiB answers come at an eighth of the rate.
  tcp_nopush off;
  tcp_nodelay on;
  keepalive_requests 100000000;
  keepalive_timeout 300s;
  open_file_cache max=200000 inactive=300s;
  open_file_cache_valid 300s;
  open_file_cache_min_uses 2;
  client_body_temp_path RAM/b; proxy_temp_path RAM/p; fastcgi_temp_path RAM/f; uwsgi_temp_path RAM/u; scgi_temp_path RAM/s;
  proxy_cache_path RAM/cache levels=1:2 keys_zone=ram:256m max_size=4g inactive=1h use_temp_path=off;
  proxy_cache_path DISK/nginx levels=1:2 keys_zone=disk:64m max_size=4g inactive=1h use_temp_path=off;
  upstream fast { server ORIGIN; keepalive 512; keepalive_requests 100000000; keepalive_timeout 300s; }
  upstream hanging { server HANGING; keepalive 16; }
  proxy_http_version 1.1;
  proxy_set_header Connection "";
  proxy_set_header Host $host;
  proxy_cache_use_stale updating;
  proxy_cache_background_update on;
  ssl_certificate CERT;
  ssl_certificate_key KEY;
  ssl_session_cache shared:tls:10m;
  server {
    listen PLAIN backlog=4096;
    listen SECURE ssl http2 backlog=4096;
    location / { proxy_cache ram; proxy_pass http://fast; }
    location = /files/100k { sendfile on; proxy_cache ram; proxy_pass http://fast; } # a quarter less CPU than without
    # At 10 MiB sendfile costs half as much CPU again as reads and writes of 256 KiB; it is on because the target is nginx with it.
    location = /files/10m { sendfile on; proxy_cache disk; proxy_pass http://fast; }
    location /store/ { proxy_cache disk; proxy_pass http://fast; }
    location /stale/ { proxy_cache ram; proxy_pass http://hanging; }
  }
}
`

func startNginx(ctx context.Context, p place) (*server, error) {
	s := &server{name: nginx}
	var err1, err2 error
	s.plain, err1 = freeAddr()
	s.secure, err2 = freeAddr()
	if err := firstOf(err1, err2); err != nil {
		return nil, err
	}
	dir := filepath.Join(p.ram, "nginx")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	s.conf = fill(nginxConf, map[string]string{
		"RAM": dir, "DISK": p.disk, "ORIGIN": p.origin.addr, "HANGING": p.origin.hangAddr, "CERT": p.cert, "KEY": p.key, "PLAIN": s.plain, "SECURE": s.secure,
	})
	conf := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(conf, []byte(s.conf), 0o644); err != nil {
		return nil, err
	}
	var err error
	if s.proc, err = start(dir, p.core, nil, "nginx", "-p", dir, "-c", conf); err != nil {
		return nil, err
	}
	s.conf = nginxConf
	return s, s.proc.listens(ctx, s.plain)
}

// varnishConf keeps expired answers for as long as they say themselves.
const varnishConf = `vcl 4.1;
backend fast { .host = "127.0.0.1"; .port = "ORIGIN"; }
backend hanging { .host = "127.0.0.1"; .port = "HANGING"; .first_byte_timeout = 600s; }
sub vcl_recv {
  if (req.url ~ "^/stale/") { set req.backend_hint = hanging; } else { set req.backend_hint = fast; }
}
`

// quiet keeps what Varnish says of every request out of its log in shared memory, which is its access log.
const quiet = "vsl_mask=-Begin,-End,-Link,-ReqStart,-ReqMethod,-ReqURL,-ReqProtocol,-ReqHeader,-ReqUnset,-ReqAcct,-RespProtocol,-RespStatus,-RespReason," +
	"-RespHeader,-RespUnset,-VCL_call,-VCL_return,-VCL_use,-Timestamp,-Hit,-Filters,-Length,-TTL,-Storage,-Fetch_Body,-BereqMethod,-BereqURL," +
	"-BereqProtocol,-BereqHeader,-BereqUnset,-BereqAcct,-BerespProtocol,-BerespStatus,-BerespReason,-BerespHeader,-BerespUnset,-BackendOpen,-BackendClose"

// varnishArgs: storage in memory, one pool of threads for one core, no log of requests.
var varnishArgs = []string{
	"-s", "malloc,2g", "-p", "thread_pools=1", "-p", "thread_pool_min=100", "-p", "thread_pool_max=1000",
	"-p", quiet, "-p", "timeout_idle=300", "-t", "3600",
}

func startVarnish(ctx context.Context, p place) (*server, error) {
	s := &server{name: varnish}
	var err error
	if s.plain, err = freeAddr(); err != nil {
		return nil, err
	}
	dir := filepath.Join(p.ram, "varnish")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	conf := fill(varnishConf, map[string]string{"ORIGIN": portOf(p.origin.addr), "HANGING": portOf(p.origin.hangAddr)})
	vcl := filepath.Join(dir, "default.vcl")
	if err := os.WriteFile(vcl, []byte(conf), 0o644); err != nil {
		return nil, err
	}
	args := append([]string{"varnishd", "-F", "-n", filepath.Join(dir, "work"), "-a", s.plain, "-f", vcl}, varnishArgs...)
	if s.proc, err = start(dir, p.core, nil, args...); err != nil {
		return nil, err
	}
	s.conf = varnishConf
	return s, s.proc.listens(ctx, s.plain)
}

// oursConf says where things are; everything else is as it comes, but for the log, which is off on all servers.
const oursConf = `listen: [http://PLAIN, https://SECURE]
admin: { listen: ADMIN, pprof: true }
tls: { cert: CERT, key: KEY }
log: { access: false }
memory: { max: 2GiB }
disk: { path: DISK/swrproxy, max: 4GiB }
origins:
  fast: { url: http://ORIGIN }
  hanging: { url: http://HANGING }
rules:
  - match: { path: /stale/* }
    origin: hanging
  - origin: fast
`

// oursInMemory is the same without the disk tier: what nginx, with its cache in memory, and Varnish are compared with.
var oursInMemory = without(oursConf, "disk:")

// startOurs starts the proxy with a configuration.
func startOurs(ctx context.Context, p place, name, template string) (*server, error) {
	s := &server{name: name, conf: template}
	var err1, err2, err3 error
	var admin string
	s.plain, err1 = freeAddr()
	s.secure, err2 = freeAddr()
	admin, err3 = freeAddr()
	if err := firstOf(err1, err2, err3); err != nil {
		return nil, err
	}
	dir := filepath.Join(p.ram, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	conf := filepath.Join(dir, "swrproxy.yaml")
	text := fill(template, map[string]string{
		"DISK": p.disk, "ORIGIN": p.origin.addr, "HANGING": p.origin.hangAddr, "CERT": p.cert, "KEY": p.key,
		"PLAIN": s.plain, "SECURE": s.secure, "ADMIN": admin,
	})
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		return nil, err
	}
	var err error
	if s.proc, err = start(dir, p.core, []string{"GOMAXPROCS=1"}, p.bin, "--config", conf); err != nil {
		return nil, err
	}
	s.admin = admin
	return s, s.proc.listens(ctx, s.plain)
}

// goVersion is for the page.
func goVersion() string {
	return fmt.Sprintf("%s %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
