package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Address is where to listen. The zero value is no address.
type Address struct {
	// Scheme is "http", "https", or "" for https exactly if there are certificates.
	Scheme string
	// Addr is host:port. An empty host means every interface, port 0 a free port.
	Addr string
}

const addressMend = "write host:port, such as 127.0.0.1:8080, or :8080 for every interface"

func (a *Address) parse(text string) error {
	scheme, addr, has := strings.Cut(text, "://")
	if !has {
		scheme, addr = "", text
	}
	if has && scheme != "http" && scheme != "https" {
		return wrong(fmt.Sprintf("%q has an unknown scheme", text), "write http://host:port, https://host:port, or host:port alone")
	}
	if err := checkHostPort(text, strings.TrimSuffix(addr, "/")); err != nil {
		return err
	}
	*a = Address{Scheme: scheme, Addr: strings.TrimSuffix(addr, "/")}
	return nil
}

func checkHostPort(text, addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		if _, numErr := strconv.ParseUint(addr, 10, 16); numErr == nil {
			return wrong(fmt.Sprintf("%q is a port without a host", text), "write 127.0.0.1:"+addr+", or :"+addr+" for every interface")
		}
		return wrong(fmt.Sprintf("%q is not an address", text), addressMend)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return wrong(fmt.Sprintf("%q has no valid port", text), "a port is a number from 0 to 65535")
	}
	if strings.ContainsAny(host, " \t/@?#\\*") {
		return wrong(fmt.Sprintf("%q has no valid host", text), addressMend)
	}
	return nil
}

func (a *Address) text() string {
	if a.Scheme == "" {
		return a.Addr
	}
	return a.Scheme + "://" + a.Addr
}

// String returns the address as it is written in a file.
func (a Address) String() string { return a.text() }

// loopback reports whether only this machine can reach the address.
func (a Address) loopback() bool {
	host, _, err := net.SplitHostPort(a.Addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// URL is the address of an origin's server: http, https or h2c.
type URL string

const urlMend = "write scheme and host, such as http://127.0.0.1:3000 or https://app.example.org"

func (u *URL) parse(text string) error {
	p, err := url.Parse(text)
	if err != nil {
		// url's own message may quote a password.
		return wrongSecret("this is not a URL", urlMend)
	}
	if err := checkURL(p); err != nil {
		return err
	}
	*u = URL(text)
	return nil
}

func checkURL(p *url.URL) error {
	shown := strconv.Quote(p.Redacted())
	switch {
	case p.Scheme != "http" && p.Scheme != "https" && p.Scheme != "h2c":
		return wrong(shown+" has no scheme of http, https or h2c", urlMend)
	case p.Hostname() == "" || p.Opaque != "":
		return wrong(shown+" has no host", urlMend)
	case p.User != nil:
		return wrongSecret(shown+" has user information, which origins are not sent", "remove what stands before the @")
	case p.RawQuery != "" || p.ForceQuery || p.Fragment != "":
		return wrong(shown+" has a query or fragment", "an origin is a scheme, a host and at most a path")
	}
	if _, err := strconv.ParseUint(p.Port(), 10, 16); p.Port() != "" && err != nil {
		return wrong(shown+" has no valid port", "a port is a number from 1 to 65535")
	}
	return nil
}

func (u *URL) text() string { return string(*u) }

func (u URL) set() bool { return u != "" }

// Parse returns the URL in parts. It does not fail on a URL that Load accepted.
func (u URL) Parse() *url.URL {
	p, err := url.Parse(string(u))
	if err != nil {
		return &url.URL{}
	}
	return p
}
