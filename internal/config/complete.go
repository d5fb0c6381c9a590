package config

import "slices"

// complete fills in what follows from other settings: the implied rule, each rule's origin and name.
func (s *source) complete(cfg *Config) {
	only := ""
	if len(cfg.Origins) == 1 {
		for only = range cfg.Origins {
		}
	}
	if len(cfg.Rules) == 0 && only != "" && s.clean("rules") {
		r := Rule{}
		r.setDefaults()
		cfg.Rules = []Rule{r}
	}
	for i := range cfg.Rules {
		r := &cfg.Rules[i]
		if r.Origin == "" && s.clean(rulePath(i)) {
			r.Origin = only
		}
		if r.Name == "" {
			r.Name = r.describe()
		}
	}
}

// originNames returns the origins' names in order.
func (c *Config) originNames() []string {
	names := make([]string, 0, len(c.Origins))
	for name := range c.Origins {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
