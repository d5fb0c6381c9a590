package config

import (
	"errors"
	"strings"
	"testing"
)

// Each bad file yields exactly one problem, at this place, which says what is wrong and how to mend it.
func TestBadFiles(t *testing.T) {
	const o = "origins: {app: {url: http://h:1}}\n" // line 1 where a case begins with it
	for name, c := range map[string]struct {
		text       string
		line, col  int
		path       string
		what, mend string
	}{
		// YAML itself
		"tab":              {"origins:\n\tapp: x\n", 2, 1, "", "cannot start any token", "spaces (not tabs)"},
		"unclosed":         {o + "listen: [a", 2, 9, "", "not found", "mend the YAML"},
		"colon in text":    {o + "listen: a: b", 2, 9, "", "not allowed", "quotes"},
		"two documents":    {o + "---\nlisten: ':1'\n", 3, 1, "", "second document", "one document"},
		"list at the top":  {"- a\n", 1, 1, "", "a group of keys is needed", "key: value"},
		"text at the top":  {"hello\n", 1, 1, "", "a group of keys is needed", "key: value"},
		"unknown anchor":   {o + "listen: *here\n", 2, 9, "listen", "no anchor &here", "define the anchor"},
		"duplicate key":    {o + "log: {level: info}\nlog: {level: warn}\n", 3, 1, "log", `"log" is here twice`, "line 2"},
		"duplicate inside": {o + "log:\n  level: info\n  level: warn\n", 4, 3, "log.level", "twice", "line 3"},
		"duplicate origin": {"origins:\n  a: {url: http://a}\n  a: {url: http://b}\n", 3, 3, "origins.a", "twice", "line 2"},

		// keys
		"misspelt":         {o + "lisen: ':1'\n", 2, 1, "lisen", `unknown key "lisen"`, "did you mean listen?"},
		"misspelt inside":  {o + "rules:\n  - stale_while_revalidat: 1s\n", 3, 5, "rules[0].stale_while_revalidat", "unknown key", "did you mean stale_while_revalidate?"},
		"in a flow":        {"origins: {app: {url: http://h:1, heath: {}}}\n", 1, 34, "origins.app.heath", "unknown key", "did you mean health?"},
		"wrong place":      {o + "stale_if_error: 1h\n", 2, 1, "stale_if_error", "unknown key", "did you mean rules[].stale_if_error?"},
		"nothing like it":  {o + "fill: {quux: 1}\n", 2, 8, "fill.quux", "unknown key", "tenure, wait, concurrency"},
		"no value":         {o + "fill: {tenure: }\n", 2, 8, "fill.tenure", "no value", "remove the key"},
		"value for group":  {o + "fill: 10s\n", 2, 7, "fill", "a group of keys is needed here, not a single value", "key: value"},
		"group for value":  {o + "listen: {a: 1}\n", 2, 9, "listen", "a list is needed here, not a group of keys", "- "},
		"list for value":   {o + "memory: {max: [1]}\n", 2, 15, "memory.max", "a single value is needed here, not a list", "one value"},
		"group for list":   {o + "rules: {ttl: 1s}\n", 2, 8, "rules", "a list is needed", "- "},
		"missing required": {o + "tls: {cert: a.pem}\n", 2, 6, "tls[0]", "key is missing", "add key"},

		// environment
		"unset variable":    {"origins: {app: {url: ${APP}}}\n", 1, 22, "origins.app.url", "environment variable APP is not set", "set APP"},
		"open variable":     {o + "listen: 'a${B'\n", 2, 9, "listen[0]", "not closed", "$${"},
		"no variable name":  {o + "listen: ${1-2}\n", 2, 9, "listen[0]", "not a variable name", "$${"},
		"variable in a key": {o + "fill: {${APP}: 1}\n", 2, 8, "fill", "APP is not set", "set APP"},

		// single values
		"duration":              {o + "fill: {tenure: 10 parsecs}\n", 2, 16, "fill.tenure", `"10 parsecs" is not a duration`, "300ms, 10s"},
		"duration without unit": {o + "fill: {wait: 10}\n", 2, 14, "fill.wait", "has no unit", "10s for seconds"},
		"negative duration":     {o + "fill: {wait: -1s}\n", 2, 14, "fill.wait", "is negative", "300ms"},
		"endless duration":      {o + "fill: {wait: 99999999w}\n", 2, 14, "fill.wait", "too long", "292 years"},
		"zero tenure":           {o + "fill: {tenure: 0}\n", 2, 16, "fill.tenure", "0 is not possible", "positive"},
		"size":                  {o + "memory: {max: 512ZB}\n", 2, 15, "memory.max", `"512ZB" is not a size`, "512MiB"},
		"size without unit":     {o + "memory: {max: 512}\n", 2, 15, "memory.max", "has no unit", "512MiB"},
		"negative size":         {o + "memory: {max: -1MiB}\n", 2, 15, "memory.max", "is negative", "MiB"},
		"zero size":             {o + "object: {max: 0}\n", 2, 15, "object.max", "0 is not possible", "positive"},
		"huge size":             {o + "memory: {max: 99999999EiB}\n", 2, 15, "memory.max", "not a size", "MiB"},
		"count":                 {o + "fill: {concurrency: many}\n", 2, 21, "fill.concurrency", "not a whole number", "digits"},
		"fractional count":      {o + "fill: {concurrency: 1.5}\n", 2, 21, "fill.concurrency", "not a whole number", "digits"},
		"negative count":        {o + "http: {max_conns: -1}\n", 2, 19, "http.max_conns", "negative", "0 or"},
		"bool":                  {o + "log: {query: yes}\n", 2, 14, "log.query", "neither true nor false", "true or false"},
		"fraction":              {o + "rules: [{heuristic: {fraction: 10}}]\n", 2, 32, "rules[0].heuristic.fraction", "not a fraction", "0 to 1"},
		"NaN fraction":          {o + "rules: [{heuristic: {fraction: .nan}}]\n", 2, 32, "rules[0].heuristic.fraction", "not a fraction", "0 to 1"},
		"choice":                {o + "log: {level: wran}\n", 2, 14, "log.level", "not a choice", `did you mean "warn"?`},
		"choice, far off":       {o + "rules: [{set_cookie: bake-it-in}]\n", 2, 22, "rules[0].set_cookie", "not a choice", "refuse, strip or keep"},
		"status":                {o + "rules: [{status_ttl: {99: 1s}}]\n", 2, 23, "rules[0].status_ttl.99", "not a final status", "200 to 599"},
		"status span":           {o + "rules: [{status_ttl: {404: no}}]\n", 2, 28, "rules[0].status_ttl.404", "not a duration", "or never"},
		"port alone":            {o + "listen: 8080\n", 2, 9, "listen[0]", "port without a host", "127.0.0.1:8080"},
		"no port":               {o + "listen: localhost\n", 2, 9, "listen[0]", "not an address", "host:port"},
		"large port":            {o + "listen: localhost:70000\n", 2, 9, "listen[0]", "no valid port", "65535"},
		"bad host":              {o + "listen: 'a b:1'\n", 2, 9, "listen[0]", "no valid host", "host:port"},
		"listen scheme":         {o + "listen: unix:///a\n", 2, 9, "listen[0]", "unknown scheme", "https://host:port"},
		"second of a list":      {o + "listen:\n  - ':1'\n  - x\n", 4, 5, "listen[1]", "not an address", "host:port"},
		"url without scheme":    {"origins: {app: {url: 'localhost:3000'}}\n", 1, 22, "origins.app.url", "no scheme", "http://127.0.0.1:3000"},
		"url scheme":            {"origins: {app: {url: ftp://h}}\n", 1, 22, "origins.app.url", "no scheme of http, https or h2c", "http://"},
		"url without host":      {"origins: {app: {url: 'http://'}}\n", 1, 22, "origins.app.url", "no host", "http://"},
		"url query":             {"origins: {app: {url: 'http://h/?a'}}\n", 1, 22, "origins.app.url", "query", "at most a path"},
		"url port":              {"origins: {app: {url: 'http://h:99999'}}\n", 1, 22, "origins.app.url", "port", "65535"},
		"host":                  {"origins: {app: {url: http://h, host: 'a/b'}}\n", 1, 38, "origins.app.host", "not a host", "preserve"},
		"network":               {o + "trusted_proxies: [10.0.0.0/33]\n", 2, 19, "trusted_proxies[0]", "not a network", "10.0.0.0/8"},
		"network of purgers":    {o + "purge: { allow: [localhost] }\n", 2, 18, "purge.allow[0]", "not a network", "10.0.0.0/8"},
		"loose network":         {o + "trusted_proxies: 10.1.2.3/8\n", 2, 18, "trusted_proxies[0]", "bits set", "write 10.0.0.0/8"},
		"method":                {o + "rules: [{match: {methods: [get]}}]\n", 2, 28, "rules[0].match.methods[0]", "not in capitals", "write GET"},
		"path pattern":          {o + "rules: [{match: {path: static}}]\n", 2, 24, "rules[0].match.path[0]", "not a path pattern", "/static/*"},
		"path with query":       {o + "rules: [{match: {path: '/a?b=*'}}]\n", 2, 24, "rules[0].match.path[0]", "has a query", "key.query"},
		"path escape":           {o + "rules: [{match: {path: '/%zz'}}]\n", 2, 24, "rules[0].match.path[0]", "not a path pattern", "/"},
		"host pattern":          {o + "rules: [{match: {host: 'a/b'}}]\n", 2, 24, "rules[0].match.host[0]", "not a host pattern", "*.example.org"},
		"host with scheme":      {o + "rules: [{match: {host: 'http://a'}}]\n", 2, 24, "rules[0].match.host[0]", "has a scheme", "host alone"},
		"parameter pattern":     {o + "rules: [{key: {query: {ignore: ['a=b']}}}]\n", 2, 33, "rules[0].key.query.ignore[0]", "not a parameter pattern", "utm_*"},
		"field name":            {o + "rules: [{key: {headers: ['A B']}}]\n", 2, 26, "rules[0].key.headers[0]", "not a field name", "Accept-Language"},
		"cookie name":           {o + "rules: [{key: {cookies: ['a=b']}}]\n", 2, 26, "rules[0].key.cookies[0]", "not a cookie name", "session"},
		"origin name":           {"origins: {'a b': {url: http://h}}\n", 1, 11, "origins.a b", "not a name", "without blanks"},

		"line ends of Windows": {"origins: {app: {url: http://h:1}}\r\n# a\r\nfill:\r\n  tenure: soon\r\n", 4, 11, "fill.tenure", "not a duration", "300ms"},
		"byte order mark":      {"\ufefflisen: 1\n" + o, 1, 1, "lisen", "unknown key", "listen"},
		"wide characters":      {"origins: {app: {url: 'http://日本語', heath: 1}}\n", 1, 36, "origins.app.heath", "unknown key", "health"},
		"after a block text":   {o + "x-a: |\n  a\n  b\nfill: {tenure: soon}\n", 5, 16, "fill.tenure", "not a duration", "300ms"},
		"tiny memory":          {o + "memory: {max: 1KiB}\n", 2, 15, "memory.max", "too small", "16KiB"},
		"tiny disk":            {o + "disk: {path: /x, max: 1KiB}\n", 2, 23, "disk.max", "too small", "1MiB"},
		"tiny head":            {o + "http: {max_header: 100B}\n", 2, 20, "http.max_header", "too small", "1KiB"},
		"huge head":            {o + "http: {max_header: 1GiB}\n", 2, 20, "http.max_header", "too large", "16MiB"},

		// across keys
		"no origin":           {"listen: ':1'\n", 0, 0, "origins", "no origin", "--origin"},
		"origin without url":  {"origins:\n  app:\n    host: origin\n", 3, 5, "origins.app", "has no url", "add url"},
		"empty origin":        {"origins:\n  app:\n", 2, 3, "origins.app", "has no url", "add url"},
		"url and urls":        {"origins: {app: {url: http://a, urls: [http://b]}}\n", 1, 38, "origins.app.urls", "both set", "put all of them in urls"},
		"url twice":           {"origins: {app: {urls: [http://a, http://a]}}\n", 1, 34, "origins.app.urls[1]", "twice", "remove one"},
		"cert without key":    {"origins: {app: {url: https://a, tls: {cert: c.pem}}}\n", 1, 45, "origins.app.tls.cert", "no key", "add key"},
		"tls on http":         {"origins: {app: {url: http://a, tls: {server_name: b}}}\n", 1, 37, "origins.app.tls", "no effect", "https://"},
		"several, no rules":   {"origins: {a: {url: http://a}, b: {url: http://b}}\n", 1, 10, "origins", "several origins and no rules", "add rules"},
		"unknown origin":      {o + "rules: [{origin: ap}]\n", 2, 18, "rules[0].origin", `no origin "ap"`, "did you mean app?"},
		"rule, no origin":     {"origins: {a: {url: http://a}, b: {url: http://b}}\nrules: [{origin: a, match: {path: /a}}, {match: {path: /b}}, {origin: b}]\n", 2, 41, "rules[1]", "has no origin", "a or b"},
		"unreachable":         {o + "rules:\n  - match: {path: /a/*}\n  - match: {path: /a/b}\n    ttl: 1s\n", 4, 5, "rules[1]", "rule 1 (app /a/*) matches everything", "narrower rule first"},
		"after catch-all":     {o + "rules:\n  - {}\n  - match: {path: /a/b}\n", 4, 5, "rules[1]", "no request reaches", "narrower rule first"},
		"same name":           {o + "rules: [{name: a, match: {path: /a}}, {name: a}]\n", 2, 46, "rules[1].name", "has the name", "its own"},
		"name by default":     {o + "rules: [{name: app, match: {path: /a}}, {}]\n", 2, 41, "rules[1]", "by default", "add name"},
		"nothing overridden":  {o + "rules: [{override: true}]\n", 2, 20, "rules[0].override", "nothing to put", "add ttl"},
		"ttl of a pass":       {o + "rules: [{pass: true, ttl: 1s}]\n", 2, 27, "rules[0].ttl", "no effect", "remove"},
		"ignore_all and more": {o + "rules: [{key: {query: {ignore_all: true, only: [a]}}}]\n", 2, 48, "rules[0].key.query.only", "no effect", "remove one"},
		"cookie field in key": {o + "rules: [{key: {headers: [cookie]}}]\n", 2, 26, "rules[0].key.headers[0]", "record per visitor", "key.cookies"},
		"backoff":             {o + "fill: {backoff: {first: 2s, max: 1s}}\n", 2, 25, "fill.backoff.first", "more than backoff.max", "swap"},
		"file keeper":         {o + "fill: {keeper: file}\n", 2, 16, "fill.keeper", "needs a directory", "fill.path"},
		"path for memory":     {o + "fill: {path: /tmp/x}\n", 2, 14, "fill.path", "no effect", "keeper: file"},
		"disk without path":   {o + "disk: {max: 1GiB}\n", 2, 13, "disk.max", "no effect", "disk.path"},
		"sample unused":       {o + "log: {sample: 5}\n", 2, 15, "log.sample", "no effect", "access: sample"},
		"https, no cert":      {o + "listen: https://:1\n", 2, 9, "listen[0]", "needs a certificate", "add tls"},
		"cert unused":         {o + "listen: http://:1\ntls: {cert: a, key: b}\n", 3, 6, "tls", "no address in listen uses", "https://host:port"},
		"address twice":       {o + "listen: [':1', ':1']\n", 2, 16, "listen[1]", "twice", "remove one"},
		"open admin":          {o + "admin: {listen: ':1'}\n", 2, 17, "admin.listen", "no token", "admin.token"},
		"admin https":         {o + "admin: {listen: 'https://127.0.0.1:1'}\n", 2, 17, "admin.listen", "plain HTTP only", "loopback"},
		"admin off":           {o + "admin: {pprof: true}\n", 2, 16, "admin.pprof", "without admin.listen", "add admin.listen"},
		"admin port taken":    {o + "listen: '127.0.0.1:1'\nadmin: {listen: '127.0.0.1:1'}\n", 3, 17, "admin.listen", "in listen as well", "port of its own"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(c.text)
			e, ok := errors.AsType[*Error](err)
			if !ok {
				t.Fatalf("error %v, want an *Error", err)
			}
			if len(e.Problems) != 1 {
				t.Errorf("%d problems, want 1:\n%v", len(e.Problems), err)
			}
			p := e.Problems[0]
			if p.File != "c.yaml" || p.Line != c.line || p.Column != c.col || p.Path != c.path {
				t.Errorf("at %s:%d:%d %s, want %d:%d %s\n%v", p.File, p.Line, p.Column, p.Path, c.line, c.col, c.path, err)
			}
			if !strings.Contains(p.What, c.what) || !strings.Contains(p.Mend, c.mend) {
				t.Errorf("says %q → %q, want %q → %q", p.What, p.Mend, c.what, c.mend)
			}
			if c.line > 0 && p.Excerpt != strings.Trim(strings.Split(c.text, "\n")[c.line-1], "\r\ufeff") {
				t.Errorf("excerpt %q", p.Excerpt)
			}
		})
	}
}
