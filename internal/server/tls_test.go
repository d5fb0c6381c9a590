package server

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writePair makes a self-signed certificate for name in dir and returns its files.
func writePair(t *testing.T, dir, name string, serial int64) CertificateFile {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	f := CertificateFile{CertFile: filepath.Join(dir, name+".crt"), KeyFile: filepath.Join(dir, name+".key")}
	for path, block := range map[string]*pem.Block{
		f.CertFile: {Type: "CERTIFICATE", Bytes: der}, f.KeyFile: {Type: "PRIVATE KEY", Bytes: raw},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func startTLS(t *testing.T, o Options, h http.Handler, names ...string) (*Server, string) {
	t.Helper()
	dir := t.TempDir()
	o.TLS = &TLSOptions{}
	for i, name := range names {
		o.TLS.Certificates = append(o.TLS.Certificates, writePair(t, dir, name, int64(i+1)))
	}
	return start(t, o, h), dir
}

// client speaks the given protocol only and trusts anybody.
func client(t *testing.T, h2 bool) *http.Client {
	p := new(http.Protocols)
	p.SetHTTP1(!h2)
	p.SetHTTP2(h2)
	tr := &http.Transport{Protocols: p, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // a test's own server
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patience}
}

func get(t *testing.T, c *http.Client, url string) (*http.Response, string) {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

func TestProtocolsOverTLS(t *testing.T) {
	s, _ := startTLS(t, Options{ListenPlain: []string{"127.0.0.1:0"}}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s tls=%t", r.Proto, r.TLS != nil && r.TLS.HandshakeComplete)
	}), "a.test")
	secure, plain := "https://"+s.Addrs()[0].String(), "http://"+s.Addrs()[1].String()
	for name, tc := range map[string]struct {
		h2        bool
		url, want string
	}{
		"HTTP/2":   {true, secure, "HTTP/2.0 tls=true"},
		"HTTP/1.1": {false, secure, "HTTP/1.1 tls=true"},
		"plain":    {false, plain, "HTTP/1.1 tls=false"},
	} {
		if _, got := get(t, client(t, tc.h2), tc.url); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// The strict checks hold inside TLS too.
func TestFramingOverTLS(t *testing.T) {
	s, _ := startTLS(t, Options{}, http.HandlerFunc(echo), "a.test")
	c := tls.Client(dial(t, s), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}) //nolint:gosec // a test's own server
	send(t, c, "POST / HTTP/1.1\r\n"+host+"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
	if resp, _ := answer(t, bufio.NewReader(c)); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("status %d, want 400", resp.StatusCode)
	}
}

func TestCertificateByName(t *testing.T) {
	s, dir := startTLS(t, Options{}, http.HandlerFunc(echo), "a.test", "b.test")
	serial := func(name string) int64 {
		c := tls.Client(dial(t, s), &tls.Config{InsecureSkipVerify: true, ServerName: name}) //nolint:gosec // a test's own server
		if err := c.Handshake(); err != nil {
			t.Fatal(err)
		}
		return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	for name, want := range map[string]int64{"a.test": 1, "b.test": 2, "other.test": 1} {
		if got := serial(name); got != want {
			t.Errorf("%s got certificate %d, want %d", name, got, want)
		}
	}
	writePair(t, dir, "b.test", 7)
	if err := s.ReloadCertificates(); err != nil || serial("b.test") != 7 {
		t.Errorf("reload: %v, certificate %d", err, serial("b.test"))
	}
	if err := os.WriteFile(filepath.Join(dir, "a.test.crt"), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.ReloadCertificates(); err == nil || !strings.Contains(err.Error(), "a.test.crt") || serial("a.test") != 1 {
		t.Errorf("reload of a damaged file: %v, certificate %d", err, serial("a.test"))
	}
}

func TestSilentHandshakeIsCut(t *testing.T) {
	s, _ := startTLS(t, Options{ReadHeaderTimeout: 50 * time.Millisecond}, http.HandlerFunc(echo), "a.test")
	if _, err := io.ReadAll(dial(t, s)); err != nil {
		t.Fatal(err)
	}
	_ = s.Close() // waits for the handshake's goroutine
	if n := s.Stats().FailedHandshakes; n != 1 {
		t.Errorf("%d failed handshakes, want 1", n)
	}
}

// One HTTP/2 stream whose client takes nothing is ended, the connection and its other streams go on.
func TestStalledStreamIsCut(t *testing.T) {
	failed := make(chan error, 1)
	s, _ := startTLS(t, Options{WriteIdle: 100 * time.Millisecond}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/bulk" {
			_, err := w.Write(bulkBody())
			failed <- err
		}
	}), "a.test")
	c, base := client(t, true), "https://"+s.Addrs()[0].String()
	resp, err := c.Get(base + "/bulk")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := <-failed; err == nil {
		t.Error("the whole body went out to a client that reads nothing")
	}
	if resp, _ := get(t, c, base+"/other"); resp.StatusCode != 200 {
		t.Errorf("another stream got %d", resp.StatusCode)
	}
	if n := s.Stats().Accepted; n != 1 {
		t.Errorf("%d connections, want the same one", n)
	}
}

func TestStalledStreamBodyIsCut(t *testing.T) {
	failed := make(chan error, 1)
	s, _ := startTLS(t, Options{ReadBodyIdle: 50 * time.Millisecond}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		failed <- err
	}), "a.test")
	pr, pw := io.Pipe()
	defer pw.Close()
	req, err := http.NewRequestWithContext(t.Context(), "POST", "https://"+s.Addrs()[0].String(), pr)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if resp, err := client(t, true).Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	if _, err := io.WriteString(pw, "abc"); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err == nil {
		t.Error("the body seemed whole")
	}
}

// HTTP/2 clients are told to go elsewhere and lose no stream.
func TestDrainHTTP2(t *testing.T) {
	began, goOn := make(chan struct{}), make(chan struct{})
	s, _ := startTLS(t, Options{DrainIdle: 100 * time.Millisecond}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(began)
		<-goOn
		_, _ = io.WriteString(w, "whole")
	}), "a.test")
	got := make(chan string, 1)
	go func() {
		_, body := get(t, client(t, true), "https://"+s.Addrs()[0].String())
		got <- body
	}()
	<-began
	drained := make(chan error, 1)
	go func() { drained <- s.Drain(context.Background()) }()
	<-s.stopping
	close(goOn)
	if body := <-got; body != "whole" {
		t.Errorf("got %q", body)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

func TestH2C(t *testing.T) {
	for on, want := range map[bool]string{true: "HTTP/2.0", false: ""} {
		s := start(t, Options{H2C: on}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
		p := new(http.Protocols)
		p.SetUnencryptedHTTP2(true)
		tr := &http.Transport{Protocols: p}
		resp, err := (&http.Client{Transport: tr, Timeout: patience}).Get("http://" + s.Addrs()[0].String())
		if (err == nil) != on {
			t.Errorf("h2c %t: %v", on, err)
		}
		if err == nil {
			b, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if string(b) != want {
				t.Errorf("h2c %t: %q", on, b)
			}
		}
		tr.CloseIdleConnections()
	}
}
