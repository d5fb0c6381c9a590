package main

import (
	"github.com/spf13/cobra"

	"github.com/swrproxy/swrproxy/internal/config"
)

// settingFlags are flags that stand for settings: they are laid over the file.
var settingFlags = []struct{ name, path, usage string }{
	{"listen", "listen", "`address` to serve on, such as 127.0.0.1:8080; may be given several times"},
	{"origin", config.PathOrigin, "`URL` of the origin; several times for several equal servers"},
	{"admin", "admin.listen", "`address` for health, metrics and the admin API, such as 127.0.0.1:8081 (default none)"},
	{"ttl", "rules[].ttl", "`time` that answers are fresh when the origin does not say, such as 1m"},
	{"stale-while-revalidate", "rules[].stale_while_revalidate", "`time` that expired answers are served while they are refreshed, when the origin does not say"},
	{"stale-if-error", "rules[].stale_if_error", "`time` that expired answers are served when the origin fails, when the origin does not say"},
	{"memory", "memory.max", "`size` of the memory tier, such as 512MiB (default a quarter of what the process may take)"},
	{"disk", "disk.path", "`directory` of the disk tier (default none)"},
	{"disk-max", "disk.max", "`size` of the disk tier, such as 20GiB"},
	{"tenure", "fill.tenure", "`time` that a fill without progress keeps its key (default 10s)"},
	{"log-level", "log.level", "`level`: debug, info, warn or error (default info)"},
	{"log-format", "log.format", "`format`: json or console (default json)"},
	{"access-log", "log.access", "log `which` requests: true (all), false (none) or sample (default true)"},
}

// settings are the flags of one command line.
type settings struct {
	file   string
	values []*[]string // beside settingFlags
}

func addSettings(cmd *cobra.Command) *settings {
	s := &settings{}
	flags := cmd.Flags()
	flags.StringVarP(&s.file, "config", "c", "", "settings `FILE` (YAML); flags go before it")
	for _, f := range settingFlags {
		s.values = append(s.values, flags.StringArray(f.name, nil, f.usage))
	}
	return s
}

// load reads file, environment and flags.
func (s *settings) load() (*config.Config, error) {
	o := config.Options{File: s.file}
	for i, f := range settingFlags {
		if given := *s.values[i]; len(given) > 0 {
			o.Flags = append(o.Flags, config.Flag{Name: "--" + f.name, Path: f.path, Values: given})
		}
	}
	return config.Load(o)
}
