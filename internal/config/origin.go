package config

// Origin is one upstream, of one or several equal servers.
type Origin struct {
	// URL and URLs are two spellings; Servers joins them.
	URL      URL            `yaml:"url"`
	URLs     []URL          `yaml:"urls"`
	Host     OriginHost     `yaml:"host"`
	Timeouts OriginTimeouts `yaml:"timeouts"`
	Pool     OriginPool     `yaml:"pool"`
	Health   OriginHealth   `yaml:"health"`
	TLS      OriginTLS      `yaml:"tls"`
	// KeepOverrideFields forwards X-HTTP-Method-Override and its kin.
	KeepOverrideFields bool `yaml:"keep_override_fields"`
}

// OriginTimeouts bound an origin's silences. 0 means no limit.
type OriginTimeouts struct {
	Connect  Duration `yaml:"connect"`
	TLS      Duration `yaml:"tls"`
	Header   Duration `yaml:"header"`
	IdleBody Duration `yaml:"idle_body"`
}

// OriginPool bounds the connections to each URL.
type OriginPool struct {
	// Idle is how many unused connections are kept; 0 means none.
	Idle int `yaml:"idle"`
	// Max is how many connections there may be; 0 means no limit.
	Max int `yaml:"max"`
	// IdleTimeout is how long an unused one is kept; 0 means for ever.
	IdleTimeout Duration `yaml:"idle_timeout"`
	// Resolve is how often the host name is looked up again; 0 means never.
	Resolve Duration `yaml:"resolve"`
}

// OriginHealth says when a URL is passed over.
type OriginHealth struct {
	// MaxFails is how many failures in a row take a URL out; 0 means never.
	MaxFails int      `yaml:"max_fails"`
	FailFor  Duration `yaml:"fail_for" is:"positive"`
	// GatewayErrors counts answers of 502, 503 and 504 as failures.
	GatewayErrors bool `yaml:"gateway_errors"`
}

// OriginTLS is for https URLs.
type OriginTLS struct {
	CA         string `yaml:"ca"`
	Cert       string `yaml:"cert"`
	Key        string `yaml:"key"`
	ServerName string `yaml:"server_name"`
	Insecure   bool   `yaml:"insecure"`
}

// Servers returns the origin's URLs, whichever key they were written under.
func (o Origin) Servers() []URL {
	if o.URL.set() {
		return []URL{o.URL}
	}
	return o.URLs
}
