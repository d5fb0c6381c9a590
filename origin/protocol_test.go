package origin

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// flavour is one way to speak to an origin.
type flavour struct {
	proto string // what the origin sees
	start func(*testing.T, http.Handler) (string, TLS)
}

var flavours = map[string]flavour{
	"http":         {"HTTP/1.1", startHTTP},
	"https h2":     {"HTTP/2.0", func(t *testing.T, h http.Handler) (string, TLS) { return startTLS(t, h, true) }},
	"https http/1": {"HTTP/1.1", func(t *testing.T, h http.Handler) (string, TLS) { return startTLS(t, h, false) }},
	"h2c":          {"HTTP/2.0", startH2C},
}

func startHTTP(t *testing.T, h http.Handler) (string, TLS) {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL, TLS{}
}

func startTLS(t *testing.T, h http.Handler, http2 bool) (string, TLS) {
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = http2
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL, TLS{CAFile: writeRoot(t, s), ServerName: "example.com"}
}

func startH2C(t *testing.T, h http.Handler) (string, TLS) {
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return strings.Replace(s.URL, "http:", "h2c:", 1), TLS{}
}

func writeRoot(t *testing.T, s *httptest.Server) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "root.pem")
	data := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// each runs a test against every flavour.
func each(t *testing.T, h http.HandlerFunc, test func(*testing.T, *Pool)) {
	for name, f := range flavours {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, cfg := f.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Proto != f.proto {
					t.Errorf("origin was spoken to in %s", r.Proto)
				}
				h(w, r)
			}))
			test(t, newPool(t, Config{TLS: cfg}, url))
		})
	}
}

func TestEachProtocol(t *testing.T) {
	each(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %s %d", r.Method, r.Host, r.RequestURI, b, r.ContentLength)
	}, func(t *testing.T, p *Pool) {
		for range 3 {
			if _, body := fetch(t, p, inbound("POST", "/a%2Fb?c", strings.NewReader("hello"))); body != "POST example.com /a%2Fb?c hello 5" {
				t.Errorf("got %q", body)
			}
			if _, body := fetch(t, p, inbound("GET", "/", nil)); body != "GET example.com /  0" {
				t.Errorf("got %q", body)
			}
		}
		want := 1
		if p.targets[0].plain != nil {
			want = 2 // bodies go through net/http and its own connections
		}
		if s := p.Status()[0]; s.Connections != want || s.InFlight != 0 || s.Exchanges != 6 {
			t.Errorf("status %+v, want %d connections", s, want)
		}
	})
}

func TestTrailers(t *testing.T) {
	each(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Te") != "trailers" {
			t.Errorf("TE: %q", r.Header["Te"])
		}
		w.Header().Set("Trailer", "X-Sum")
		io.WriteString(w, "body")
		w.Header().Set("X-Sum", "1")
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	}, func(t *testing.T, p *Pool) {
		r := inbound("GET", "/", nil)
		r.Header.Set("Te", "trailers")
		resp, body := fetch(t, p, r)
		if d := cmp.Diff(http.Header{"X-Sum": {"1"}, "Grpc-Status": {"0"}}, resp.Trailer); d != "" || body != "body" {
			t.Errorf("body %q, trailers (-want +got):\n%s", body, d)
		}
		if resp.Header.Get("Trailer") != "" {
			t.Error("Trailer is left in the header")
		}
	})
}

func TestRequestTrailers(t *testing.T) {
	each(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, r.Trailer.Get("X-Sum"))
	}, func(t *testing.T, p *Pool) {
		r := inbound("POST", "/", nil)
		r.Trailer = http.Header{"X-Sum": nil}
		r.Body = io.NopCloser(io.MultiReader(strings.NewReader("x"), atEOF(func() { r.Trailer.Set("X-Sum", "late") })))
		r.ContentLength = -1
		if _, body := fetch(t, p, r); body != "late" {
			t.Errorf("origin got trailer %q", body)
		}
	})
}

// atEOF is an empty reader that calls a function when it is read.
type atEOF func()

func (f atEOF) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}

// TestInformational: RFC 9110 §15.2, RFC 8297.
func TestInformational(t *testing.T) {
	each(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</a.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusNoContent)
	}, func(t *testing.T, p *Pool) {
		var mu sync.Mutex // guards following
		var got []string
		trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, fmt.Sprint(code, h["Link"]))
			return nil
		}}
		r := inbound("GET", "/", nil)
		resp, _ := fetch(t, p, r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
		mu.Lock()
		defer mu.Unlock()
		if d := cmp.Diff([]string{"103 [</a.css>]"}, got); d != "" || resp.StatusCode != http.StatusNoContent {
			t.Errorf("status %d, informational (-want +got):\n%s", resp.StatusCode, d)
		}
	})
}

// TestStreaming: parts arrive as they are sent, both ways at once as in a gRPC stream. HTTP/1.1 servers read the request first.
func TestStreaming(t *testing.T) {
	each(t, func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		rc.EnableFullDuplex()
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		rc.Flush()
		for lines := bufio.NewScanner(r.Body); lines.Scan(); {
			fmt.Fprintf(w, "echo %s\n", lines.Text())
			rc.Flush()
		}
		w.Header().Set("Grpc-Status", "0")
	}, func(t *testing.T, p *Pool) {
		up, send := io.Pipe()
		r := inbound("POST", "/", up)
		r.Header.Set("Te", "trailers")
		resp, err := roundTrip(p, r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		lines := bufio.NewReader(resp.Body)
		for i := range 3 {
			fmt.Fprintln(send, i)
			if got, err := lines.ReadString('\n'); err != nil || got != fmt.Sprintf("echo %d\n", i) {
				t.Fatalf("got %q, %v", got, err)
			}
		}
		send.Close()
		if rest, err := io.ReadAll(lines); len(rest) != 0 || err != nil {
			t.Fatalf("rest %q, %v", rest, err)
		}
		if resp.Trailer.Get("Grpc-Status") != "0" {
			t.Errorf("trailer %v", resp.Trailer)
		}
	})
}

// TestHTTP2Reset: a stream that the origin resets is a reset, before the head and inside the body.
func TestHTTP2Reset(t *testing.T) {
	url, _ := startH2C(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			io.WriteString(w, "abc")
			http.NewResponseController(w).Flush()
		}
		panic(http.ErrAbortHandler)
	}))
	p := newPool(t, Config{}, url)
	if err, _ := failedHead(t, p, inbound("GET", "/head", nil)); err.Class != ClassReset {
		t.Errorf("before the head: %v", err)
	}
	if err, _ := failedBody(t, p, inbound("GET", "/body", nil)); err.Class != ClassReset {
		t.Errorf("inside the body: %v", err)
	}
}

// websocketEcho switches to a protocol that sends back what it gets.
func websocketEcho(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", r.Header.Get("Upgrade"))
	w.Header().Set("Sec-Websocket-Accept", "x")
	w.WriteHeader(http.StatusSwitchingProtocols)
	c, brw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	io.Copy(c, brw)
}

// TestWebSocket goes through httputil.ReverseProxy, as the cache does.
func TestWebSocket(t *testing.T) {
	each := map[string]func(*testing.T) (string, TLS){
		"http":         func(t *testing.T) (string, TLS) { return startHTTP(t, http.HandlerFunc(websocketEcho)) },
		"https http/1": func(t *testing.T) (string, TLS) { return startTLS(t, http.HandlerFunc(websocketEcho), false) },
		"https h2":     func(t *testing.T) (string, TLS) { return startTLS(t, http.HandlerFunc(websocketEcho), true) },
	}
	for name, start := range each {
		t.Run(name, func(t *testing.T) {
			url, cfg := start(t)
			p := newPool(t, Config{TLS: cfg}, url)
			proxy := startProxy(t, p)
			c := dialProxy(t, proxy)
			io.WriteString(c, "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Key: k\r\n\r\n")
			br := bufio.NewReader(c)
			resp, err := http.ReadResponse(br, nil)
			if err != nil || resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("Upgrade") != "websocket" || resp.Header.Get("Sec-Websocket-Accept") != "x" {
				t.Fatalf("got %+v, %v", resp, err)
			}
			if n := p.Status()[0].InFlight; n != 1 {
				t.Errorf("%d in flight", n)
			}
			io.WriteString(c, "hello")
			got := make([]byte, len("hello"))
			if _, err := io.ReadFull(br, got); err != nil || string(got) != "hello" {
				t.Fatalf("got %q, %v", got, err)
			}
			c.(*net.TCPConn).CloseWrite()
			if rest, err := io.ReadAll(br); len(rest) != 0 || err != nil {
				t.Errorf("after our end: %q, %v", rest, err)
			}
		})
	}
}

// TestHBH06OnlyWebSocket: the origin never sees another upgrade, so its answer is an ordinary one.
func TestHBH06OnlyWebSocket(t *testing.T) {
	origin := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		if up := r.Header.Get("Upgrade") + r.Header.Get("Connection") + r.Header.Get("Http2-Settings"); up != "" {
			t.Errorf("origin got %v", r.Header)
		}
	})
	proxy := startProxy(t, newPool(t, Config{}, origin.URL))
	c := dialProxy(t, proxy)
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("got %+v, %v", resp, err)
	}
}

// TestRefusedWebSocket: an origin may answer an upgrade with an ordinary response.
func TestRefusedWebSocket(t *testing.T) {
	origin := newOrigin(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) })
	p := newPool(t, Config{}, origin.URL)
	r := inbound("GET", "/", nil)
	r.Header = http.Header{"Connection": {"upgrade"}, "Upgrade": {"websocket"}}
	if resp, body := fetch(t, p, r); resp.StatusCode != http.StatusForbidden || body != "no\n" {
		t.Errorf("got %d %q", resp.StatusCode, body)
	}
}

// TestSSE: an event reaches the client while the stream is open.
func TestSSE(t *testing.T) {
	release := make(chan struct{})
	origin := newOrigin(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: 1\n\n")
		http.NewResponseController(w).Flush()
		<-release
		io.WriteString(w, "data: 2\n\n")
	})
	proxy := startProxy(t, newPool(t, Config{}, origin.URL))
	resp, err := proxy.Client().Get(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	event := make([]byte, len("data: 1\n\n"))
	if _, err := io.ReadFull(resp.Body, event); err != nil || string(event) != "data: 1\n\n" {
		t.Fatalf("got %q, %v", event, err)
	}
	close(release)
	if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != "data: 2\n\n" {
		t.Errorf("rest %q, %v", rest, err)
	}
}

// startProxy puts the pool behind a server, unmodified.
func startProxy(t *testing.T, p *Pool) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(&httputil.ReverseProxy{Transport: p, Rewrite: func(*httputil.ProxyRequest) {}})
	t.Cleanup(s.Close)
	return s
}

func dialProxy(t *testing.T, s *httptest.Server) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestBigBodies: bytes arrive unchanged in both directions.
func TestBigBodies(t *testing.T) {
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
	each(t, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Write(b)
	}, func(t *testing.T, p *Pool) {
		if _, body := fetch(t, p, inbound("PUT", "/", bytes.NewReader(big))); body != string(big) {
			t.Errorf("%d bytes came back changed", len(body))
		}
	})
}

func TestCertificates(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.TLS.ServerName, " ", len(r.TLS.PeerCertificates))
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.Config.ErrorLog = discardLog
	s.StartTLS()
	t.Cleanup(s.Close)
	root := writeRoot(t, s)
	cert, key := writePair(t, s)
	for name, tt := range map[string]struct {
		cfg  TLS
		want string // "" means refused
	}{
		"system roots do not know it": {TLS{ServerName: "example.com"}, ""},
		"its root":                    {TLS{CAFile: root, ServerName: "example.com"}, "example.com 0"},
		"another name":                {TLS{CAFile: root, ServerName: "evil.test"}, ""},
		"the URL's host":              {TLS{CAFile: root}, " 0"}, // 127.0.0.1 is in the certificate, and no SNI
		"unverified":                  {TLS{InsecureSkipVerify: true, ServerName: "x.test"}, "x.test 0"},
		"client certificate":          {TLS{CAFile: root, CertFile: cert, KeyFile: key}, " 1"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, Config{TLS: tt.cfg}, s.URL)
			if tt.want == "" {
				if err, _ := failedHead(t, p, inbound("GET", "/", nil)); err.Class != ClassTLS {
					t.Errorf("got %v", err)
				}
				return
			}
			if _, body := fetch(t, p, inbound("GET", "/", nil)); body != tt.want {
				t.Errorf("got %q, want %q", body, tt.want)
			}
		})
	}
}

var discardLog = log.New(io.Discard, "", 0)

// writePair writes the server's own certificate and key, which serve as a client's too.
func writePair(t *testing.T, s *httptest.Server) (certFile, keyFile string) {
	t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(s.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	keyFile = filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600); err != nil {
		t.Fatal(err)
	}
	return writeRoot(t, s), keyFile
}
