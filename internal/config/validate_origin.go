package config

import (
	"fmt"
	"strings"
)

func (s *source) checkOrigins(cfg *Config) {
	if len(cfg.Origins) == 0 && s.clean("origins") {
		s.fail("origins", "there is no origin to fetch from", "add origins: { app: { url: http://127.0.0.1:3000 } }, or --origin http://127.0.0.1:3000")
	}
	for _, name := range cfg.originNames() {
		path := "origins." + name
		if s.clean(path) {
			s.checkOrigin(path, cfg.Origins[name])
		}
	}
}

func (s *source) checkOrigin(path string, o Origin) {
	switch {
	case o.URL.set() && len(o.URLs) > 0:
		s.fail(path+".urls", "url and urls are both set", "put all of them in urls")
	case len(o.Servers()) == 0:
		s.fail(path, "the origin has no url", "add url: http://host:port, or urls: [ … ] for several equal servers")
	}
	seen := map[URL]bool{}
	for i, u := range o.URLs {
		if seen[u] {
			s.fail(fmt.Sprintf("%s.urls[%d]", path, i), fmt.Sprintf("%s is in the list twice", u), "remove one")
		}
		seen[u] = true
	}
	s.checkOriginTLS(path+".tls", o)
}

func (s *source) checkOriginTLS(path string, o Origin) {
	t := o.TLS
	switch {
	case t.Cert != "" && t.Key == "":
		s.fail(path+".cert", "the client certificate has no key", "add key: a PEM file")
	case t.Key != "" && t.Cert == "":
		s.fail(path+".key", "the key has no client certificate", "add cert: a PEM file")
	}
	if t.Insecure {
		s.warn(path+".insecure", "any certificate is accepted, so anybody on the way can read and change what is cached",
			"name the authority instead: tls: { ca: file.pem }")
	}
	if t != (OriginTLS{}) && !speaksTLS(o) {
		s.fail(path, "has no effect: no url of this origin is https", "write the url with https://, or remove tls")
	}
}

func speaksTLS(o Origin) bool {
	for _, u := range o.Servers() {
		if strings.HasPrefix(string(u), "https:") {
			return true
		}
	}
	return false
}
