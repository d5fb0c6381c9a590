package client

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/swrproxy/swrproxy/internal/config"
)

// DefaultAdmin is where a proxy is looked for if nothing says where it is.
const DefaultAdmin = "http://127.0.0.1:8081"

// Where says how to reach a proxy's admin listener.
type Where struct {
	// Config is a settings file with admin.listen and admin.token. "" means none.
	Config string
	// Admin is a URL or host:port; it goes before the file's. Without either it is DefaultAdmin.
	Admin string
	// Token goes before the file's. "" sends none.
	Token string
}

// Errors of Locate.
var (
	// ErrNoAdmin is returned for settings without an admin listener.
	ErrNoAdmin = errors.New("the settings have no admin.listen; add it, or say --admin URL")
	// ErrFreePort is returned for settings that leave the port to the system.
	ErrFreePort = errors.New("admin.listen takes any free port; say --admin URL as the proxy printed it")
)

// Locate fills in what w leaves open, so that Admin is the URL to ask. Settings that cannot be loaded are an error.
func Locate(w Where) (Where, error) {
	if w.Config != "" {
		if err := w.fromSettings(); err != nil {
			return Where{}, err
		}
	}
	if w.Admin == "" {
		w.Admin = DefaultAdmin
	}
	if !strings.Contains(w.Admin, "://") {
		w.Admin = "http://" + w.Admin
	}
	u, err := url.Parse(w.Admin)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return Where{}, fmt.Errorf("%q is no address of an admin listener; write http://host:port", w.Admin)
	}
	w.Admin = strings.TrimSuffix(w.Admin, "/")
	return w, nil
}

func (w *Where) fromSettings() error {
	cfg, err := config.Load(config.Options{File: w.Config})
	if err != nil {
		return err
	}
	if w.Token == "" {
		w.Token = string(cfg.Admin.Token)
	}
	if w.Admin != "" {
		return nil
	}
	if !cfg.Admin.Enabled() {
		return fmt.Errorf("%s: %w", w.Config, ErrNoAdmin)
	}
	host, port, err := net.SplitHostPort(cfg.Admin.Listen.Addr)
	if err != nil {
		return fmt.Errorf("%s: admin.listen: %w", w.Config, err)
	}
	if port == "0" {
		return fmt.Errorf("%s: %w", w.Config, ErrFreePort)
	}
	w.Admin = "http://" + net.JoinHostPort(reachable(host), port)
	return nil
}

// reachable is a host to connect to for one that is listened on: every interface includes this machine's own.
func reachable(host string) string {
	ip := net.ParseIP(host)
	switch {
	case host == "", ip != nil && ip.IsUnspecified() && ip.To4() != nil:
		return "127.0.0.1"
	case ip != nil && ip.IsUnspecified():
		return "::1"
	default:
		return host
	}
}
