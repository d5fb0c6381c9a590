package config

import (
	"net/netip"
)

// Config is everything that can be set. What each key means, in which unit, and what 0 stands for, is written in
// config.example.yaml; the comments here only add what the code needs. Immutable after Load.
type Config struct {
	Listen         []Address         `yaml:"listen"`
	TLS            []Certificate     `yaml:"tls"`
	HTTP           HTTP              `yaml:"http"`
	Admin          Admin             `yaml:"admin"`
	Purge          Purge             `yaml:"purge"`
	Log            Log               `yaml:"log"`
	Memory         Memory            `yaml:"memory"`
	Disk           Disk              `yaml:"disk"`
	Object         Object            `yaml:"object"`
	Fill           Fill              `yaml:"fill"`
	TagFields      []FieldName       `yaml:"tag_fields"`
	TrustedProxies []netip.Prefix    `yaml:"trusted_proxies"`
	Origins        map[string]Origin `yaml:"origins"`
	Rules          []Rule            `yaml:"rules"`

	warnings []Problem
}

// Certificate is a pair of PEM files.
type Certificate struct {
	Cert string `yaml:"cert" is:"required"`
	Key  string `yaml:"key" is:"required"`
}

// HTTP bounds what clients may do. Where 0 is allowed it means no limit.
type HTTP struct {
	Header    Duration `yaml:"header" is:"positive"`
	Body      Duration `yaml:"body"`
	Write     Duration `yaml:"write"`
	Idle      Duration `yaml:"idle" is:"positive"`
	MaxHeader Size     `yaml:"max_header" is:"positive"`
	MaxConns  int      `yaml:"max_conns"`
	Drain     Duration `yaml:"drain" is:"positive"`
	DrainIdle Duration `yaml:"drain_idle"`
	H2C       bool     `yaml:"h2c"`
}

// Admin is the second listener. No address means that there is none.
type Admin struct {
	Listen Address `yaml:"listen"`
	Token  Secret  `yaml:"token"`
	Pprof  bool    `yaml:"pprof"`
}

// Enabled reports whether there is an admin listener.
func (a Admin) Enabled() bool { return a.Listen.Addr != "" }

// Purge is the PURGE method of the public listeners. Nobody allowed means that there is none.
type Purge struct {
	Allow []netip.Prefix `yaml:"allow"`
}

// Log says what is logged and how.
type Log struct {
	Level  LogLevel  `yaml:"level"`
	Format LogFormat `yaml:"format"`
	Access Access    `yaml:"access"`
	Sample int       `yaml:"sample" is:"positive"`
	Query  bool      `yaml:"query"`
}

// Memory is the memory tier.
type Memory struct {
	Max Size `yaml:"max" is:"positive"`
	// HugePages asks the system to keep the tier in pages of 2 MiB.
	HugePages bool `yaml:"huge_pages"`
}

// Disk is the disk tier. No path means that there is none.
type Disk struct {
	Path string `yaml:"path"`
	Max  Size   `yaml:"max" is:"positive"`
}

// Object bounds single responses.
type Object struct {
	Max      Size `yaml:"max" is:"positive"`
	Variants int  `yaml:"variants" is:"positive"`
}

// Fill bounds fills and the readers who wait for them. In Wait and Concurrency 0 means no limit, in Mark off, in Timeout none.
type Fill struct {
	Tenure      Duration `yaml:"tenure" is:"positive"`
	Wait        Duration `yaml:"wait"`
	Concurrency int      `yaml:"concurrency"`
	Timeout     Duration `yaml:"timeout"`
	Backoff     Backoff  `yaml:"backoff"`
	Mark        Duration `yaml:"mark"`
	Keeper      Keeper   `yaml:"keeper"`
	Path        string   `yaml:"path"`
	Stale       Duration `yaml:"stale" is:"positive"`
}

// Backoff is the pause after failed fills of one key.
type Backoff struct {
	First Duration `yaml:"first" is:"positive"`
	Max   Duration `yaml:"max" is:"positive"`
}

// Warnings are settings that are allowed and dangerous. The caller must not modify them.
func (c *Config) Warnings() []Problem { return c.warnings }
