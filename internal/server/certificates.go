package server

import (
	"crypto/tls"
	"fmt"
	"sync/atomic"
)

// TLSOptions says how listeners speak TLS.
type TLSOptions struct {
	// Certificates are the pairs to choose from by the name that a client asks for; the first serves those who ask for none
	// or for another. At least one.
	Certificates []CertificateFile
	// MinVersion is the oldest version spoken, such as tls.VersionTLS13. 0 means TLS 1.2.
	MinVersion uint16
}

// CertificateFile names a certificate chain and its key, both PEM.
type CertificateFile struct {
	CertFile, KeyFile string
}

// certificates are the loaded pairs; a reload replaces all of them or none. Safe for concurrent use.
type certificates struct {
	files  []CertificateFile
	loaded atomic.Pointer[[]tls.Certificate]
}

func loadCertificates(files []CertificateFile) (*certificates, error) {
	c := &certificates{files: files}
	return c, c.reload()
}

func (c *certificates) reload() error {
	pairs := make([]tls.Certificate, 0, len(c.files))
	for _, f := range c.files {
		pair, err := tls.LoadX509KeyPair(f.CertFile, f.KeyFile)
		if err != nil {
			return fmt.Errorf("load certificate %s: %w", f.CertFile, err)
		}
		pairs = append(pairs, pair)
	}
	c.loaded.Store(&pairs)
	return nil
}

// choose is tls.Config's GetCertificate: the first pair that suits the client, else the first of all.
func (c *certificates) choose(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	pairs := *c.loaded.Load()
	for i := range pairs {
		if len(pairs) > 1 && hello.SupportsCertificate(&pairs[i]) == nil {
			return &pairs[i], nil
		}
	}
	return &pairs[0], nil
}

func (c *certificates) config(o *TLSOptions) *tls.Config {
	version := o.MinVersion
	if version == 0 {
		version = tls.VersionTLS12
	}
	return &tls.Config{
		GetCertificate: c.choose,
		MinVersion:     version,
		NextProtos:     []string{"h2", "http/1.1"},
	}
}
