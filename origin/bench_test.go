package origin

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// fixedOrigin answers every request with 1 KiB and hardly any work of its own, so that a benchmark shows the client's side.
func fixedOrigin(b *testing.B) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go answerFixed(c)
		}
	}()
	return "http://" + l.Addr().String()
}

func answerFixed(c net.Conn) {
	defer c.Close()
	head := "HTTP/1.1 200 OK\r\nDate: " + time.Now().UTC().Format(http.TimeFormat) +
		"\r\nCache-Control: max-age=60\r\nContent-Type: text/plain\r\nContent-Length: 1024\r\n\r\n"
	answer := append([]byte(head), make([]byte, 1024)...)
	buf := make([]byte, 4096)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		if bytes.HasSuffix(buf[:n], []byte("\r\n\r\n")) {
			c.Write(answer)
		}
	}
}

func benchRequest() *http.Request {
	r := inbound("GET", "/page?x=1", nil)
	r.Header = http.Header{"Accept": {"*/*"}, "User-Agent": {"bench/1"}, "Accept-Encoding": {"gzip, br"}, "Accept-Language": {"en"}, "Cookie": {"a=b"}}
	return r
}

func bench(b *testing.B, rt http.RoundTripper, req *http.Request) {
	buf := make([]byte, 2048)
	b.ReportAllocs()
	for b.Loop() {
		resp, err := rt.RoundTrip(req)
		if err != nil {
			b.Fatal(err)
		}
		for err == nil {
			_, err = resp.Body.Read(buf)
		}
		if err != io.EOF {
			b.Fatal(err)
		}
		resp.Body.Close()
	}
}

// BenchmarkExchange is a whole exchange over a kept connection.
func BenchmarkExchange(b *testing.B) {
	p := newPool(b, Config{}, fixedOrigin(b))
	bench(b, p, benchRequest())
}

// BenchmarkTransport is the same with net/http alone and nothing added: the floor.
func BenchmarkTransport(b *testing.B) {
	tr := &http.Transport{DisableCompression: true}
	b.Cleanup(tr.CloseIdleConnections)
	req, err := http.NewRequest("GET", fixedOrigin(b)+"/page?x=1", nil)
	if err != nil {
		b.Fatal(err)
	}
	req.Header = benchRequest().Header
	bench(b, tr, req)
}

// BenchmarkHeader is the making of the header alone.
func BenchmarkHeader(b *testing.B) {
	p := newPool(b, Config{}, "http://192.0.2.1")
	req := benchRequest()
	b.ReportAllocs()
	for b.Loop() {
		p.header(req, "")
	}
}
