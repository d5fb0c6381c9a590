package integration

import (
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
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Promise: HTTP/2 and HTTP/1.1 over TLS work from certificate files, and the scheme is part of the key.

// certificate writes a self-signed pair for loopback and returns its files and a pool that trusts it.
func certificate(t *testing.T) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: site}, DNSNames: []string{site},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	writeFile(t, cert, string(text))
	writeFile(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})))
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return cert, key, pool
}

// tlsClient speaks HTTP/2 exactly if h2 is set.
func tlsClient(t *testing.T, pool *x509.CertPool, h2 bool) *http.Client {
	t.Helper()
	var protocols http.Protocols
	protocols.SetHTTP1(!h2)
	protocols.SetHTTP2(h2)
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, Protocols: &protocols}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: clientLimit}
}

func fetchURL(t *testing.T, c *http.Client, url string) (*http.Response, string) {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// startTLS starts a proxy with a plain and a TLS listener and returns the bases of both.
func startTLS(t *testing.T, o *origin) (plain, secure string, pool *x509.CertPool) {
	t.Helper()
	cert, key, pool := certificate(t)
	text := conf{Origin: o.url, Extra: fmt.Sprintf("tls: [{ cert: %s, key: %s }]\n", cert, key)}.yaml()
	text = strings.Replace(text, "listen: 127.0.0.1:0\n", "listen: [ \"http://127.0.0.1:0\", \"https://127.0.0.1:0\" ]\n", 1)
	file := filepath.Join(t.TempDir(), "swrproxy.yaml")
	writeFile(t, file, text)
	p := startArgs(t, 2, "serve", "--config", file)
	for _, url := range p.URLs() {
		if strings.HasPrefix(url, "https:") {
			secure = url
		} else {
			plain = url
		}
	}
	if plain == "" || secure == "" {
		t.Fatalf("listeners: %v", p.URLs())
	}
	return plain, secure, pool
}

func TestTLSListenerSpeaksBothProtocols(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/t", page("Cache-Control: max-age=60"))
	_, secure, pool := startTLS(t, o)
	for _, h2 := range []bool{true, false} {
		resp, body := fetchURL(t, tlsClient(t, pool, h2), secure+"/t")
		if resp.StatusCode != http.StatusOK || body != version(1, "/t") {
			t.Errorf("h2=%v: status %d, body %q", h2, resp.StatusCode, body)
		}
		if (resp.ProtoMajor == 2) != h2 {
			t.Errorf("h2=%v: answered with %s", h2, resp.Proto)
		}
	}
	o.wantCalls("/t", 1)
	if got := o.request("/t", 1).Header.Get("X-Forwarded-Proto"); got != "https" {
		t.Errorf("X-Forwarded-Proto %q", got)
	}
}

// KEY-03.
func TestSchemeIsPartOfTheKey(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/s", func(w http.ResponseWriter, r *http.Request, n int) {
		if r.Header.Get("X-Forwarded-Proto") == "http" {
			answer(http.StatusMovedPermanently, "", "Cache-Control: max-age=60", "Location: https://"+site+"/s")(w, r, n)
			return
		}
		answer(http.StatusOK, "secure", "Cache-Control: max-age=60")(w, r, n)
	})
	plain, secure, pool := startTLS(t, o)
	c := tlsClient(t, pool, true)
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	h1 := &http.Client{CheckRedirect: c.CheckRedirect, Timeout: clientLimit}
	for range 2 {
		if resp, _ := fetchURL(t, h1, plain+"/s"); resp.StatusCode != http.StatusMovedPermanently {
			t.Errorf("http: status %d", resp.StatusCode)
		}
		if resp, body := fetchURL(t, c, secure+"/s"); resp.StatusCode != http.StatusOK || body != "secure" {
			t.Errorf("https: status %d, body %q", resp.StatusCode, body)
		}
	}
}

// Many streams of one HTTP/2 connection wait for one fill like clients of their own.
func TestStreamsOfOneConnectionShareAFill(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/m", after(300*time.Millisecond, page("Cache-Control: max-age=60")))
	_, secure, pool := startTLS(t, o)
	c := tlsClient(t, pool, true)
	var done sync.WaitGroup
	for range 100 {
		done.Go(func() {
			resp, err := c.Get(secure + "/m")
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if body, err := io.ReadAll(resp.Body); err != nil || string(body) != version(1, "/m") {
				t.Errorf("body %q, %v", body, err)
			}
		})
	}
	done.Wait()
	o.wantCalls("/m", 1)
}
