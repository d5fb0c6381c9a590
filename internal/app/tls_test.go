package app

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writeCertificate writes a self-signed pair with this serial number.
func writeCertificate(t *testing.T, cert, key string, serial int64) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// serial returns the serial number of the certificate that a listener shows.
func serial(t *testing.T, addr string) int64 {
	t.Helper()
	// The test looks at the certificate itself.
	c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, ServerName: "localhost"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

func TestReloadReadsCertificatesAgain(t *testing.T) {
	o := newSource(t, cacheable)
	cert, key := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	writeCertificate(t, cert, key, 1)
	settings := strings.Replace(base, "listen: 127.0.0.1:0", "listen: ['http://127.0.0.1:0', '127.0.0.1:0']", 1) +
		fmt.Sprintf("tls: { cert: %s, key: %s }\norigins: { app: { url: %s } }\n", cert, key, o.URL)
	r := start(t, settings)
	defer r.stop()
	urls := r.URLs()
	addr, secure := strings.CutPrefix(urls[0], "https://")
	if !secure || !strings.HasPrefix(urls[1], "http://") {
		t.Fatalf("URLs %v", urls)
	}
	if n := serial(t, addr); n != 1 {
		t.Errorf("serial %d", n)
	}
	writeCertificate(t, cert, key, 2)
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	if n := serial(t, addr); n != 2 {
		t.Errorf("after the reload: serial %d", n)
	}
	// A broken pair changes nothing, the rest of the file included.
	if err := os.WriteFile(cert, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.file = strings.Replace(settings, o.URL, "http://127.0.0.1:1", 1)
	before := r.pools.current()["app"]
	if err := r.Reload(); err == nil {
		t.Error("no error for a broken certificate")
	}
	if n := serial(t, addr); n != 2 || r.pools.current()["app"] != before {
		t.Errorf("serial %d; origin replaced: %v", n, r.pools.current()["app"] != before)
	}
}
