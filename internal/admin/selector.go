package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/swrproxy/swrproxy/cache"
)

// PurgeRequest is the body of POST /v1/purge. Exactly one of the first six fields is set.
type PurgeRequest struct {
	// URL is one absolute URL with all its variants, Tags are compared whole, Prefix and Glob are of absolute URLs, Host is an
	// authority, All is everything.
	URL    string   `json:"url,omitempty"`
	Tags   []string `json:"tags,omitempty"`
	Prefix string   `json:"prefix,omitempty"`
	Glob   string   `json:"glob,omitempty"`
	Host   string   `json:"host,omitempty"`
	All    bool     `json:"all,omitempty"`
	// Soft makes stale in place of removing. Refresh fetches afresh, behind the answer, what was reached. DryRun only counts.
	Soft    bool `json:"soft,omitempty"`
	Refresh bool `json:"refresh,omitempty"`
	DryRun  bool `json:"dry_run,omitempty"`
	// Wait false answers when the purge is in force and durable, without counts, where counting takes a walk over the store. Nil means true.
	Wait *bool `json:"wait,omitempty"`
}

// noWait tells whether the answer need not have counts.
func (p *PurgeRequest) noWait() bool { return p.Wait != nil && !*p.Wait }

const purgeExample = `{"url":"http://example.org/page"}`

func readPurge(w http.ResponseWriter, r *http.Request) (p PurgeRequest, bad *badInput) {
	bad = decode(w, r, purgeExample, map[string]setter{
		"url": text("url", &p.URL), "tags": texts("tags", &p.Tags), "prefix": text("prefix", &p.Prefix), "glob": text("glob", &p.Glob),
		"host": text("host", &p.Host), "all": truth("all", &p.All),
		"soft": truth("soft", &p.Soft), "refresh": truth("refresh", &p.Refresh), "dry_run": truth("dry_run", &p.DryRun),
		"wait": func(raw json.RawMessage) *badInput { p.Wait = new(bool); return truth("wait", p.Wait)(raw) },
	})
	return p, bad
}

// selector is what p selects, in the form in which the cache compares.
func (p *PurgeRequest) selector() (cache.Selector, *badInput) {
	if p.noWait() && (p.Refresh || p.DryRun) {
		return cache.Selector{}, &badInput{
			field: "wait", value: "false", why: "leaves open what is reached, which refresh and dry_run need", mend: "leave out wait, or refresh and dry_run",
		}
	}
	if bad := p.checkCount(); bad != nil {
		return cache.Selector{}, bad
	}
	sel := cache.Selector{URL: p.URL, Tags: p.Tags, Prefix: normalHead(p.Prefix), Glob: normalHead(p.Glob), Host: p.Host, All: p.All}
	switch {
	case p.URL != "":
		return sel, checkURL("url", p.URL)
	case p.Prefix != "":
		return sel, checkPattern("prefix", p.Prefix, hasScheme(sel.Prefix), "http://example.org/dir/")
	case p.Glob != "":
		return sel, checkPattern("glob", p.Glob, hasScheme(sel.Glob) || strings.HasPrefix(sel.Glob, "*"), "http://*.example.org/*.css")
	case p.Host != "":
		return sel, checkHost(p.Host)
	}
	return sel, nil
}

func (p *PurgeRequest) checkCount() *badInput {
	var set []string
	for _, f := range []struct {
		name string
		is   bool
	}{
		{"url", p.URL != ""},
		{"tags", p.Tags != nil},
		{"prefix", p.Prefix != ""},
		{"glob", p.Glob != ""},
		{"host", p.Host != ""},
		{"all", p.All},
	} {
		if f.is {
			set = append(set, f.name)
		}
	}
	switch len(set) {
	case 0:
		return &badInput{why: "nothing says what to purge", mend: "set one of url, tags, prefix, glob, host, all (to true)"}
	case 1:
		return nil
	default:
		return &badInput{field: strings.Join(set, ", "), why: "more than one says what to purge", mend: "set exactly one; send a request for each"}
	}
}

func hasScheme(s string) bool {
	return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://")
}

func checkPattern(field, value string, ok bool, example string) *badInput {
	switch {
	case !ok:
		return &badInput{field: field, value: fmt.Sprintf("%q", clip(value)), why: "matches no absolute URL", mend: "begin with the scheme, as in " + example}
	case strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return &badInput{field: field, value: fmt.Sprintf("%q", clip(value)), why: "has bytes that no URL has", mend: "percent-encode them"}
	}
	return nil
}

func checkHost(host string) *badInput {
	u, err := url.Parse("http://" + host)
	if err != nil || u.Host != host || u.Hostname() == "" {
		return &badInput{field: "host", value: fmt.Sprintf("%q", clip(host)), why: "is no host", mend: "write a name, with its port unless that is the scheme's own: example.org, example.org:8080"}
	}
	return nil
}

// normalHead writes scheme and authority of a prefix or pattern as keys have them: in lower case and, where a slash shows that the authority
// is whole, without the scheme's own port. RFC 3986 §6.2.2.1, §6.2.3.
func normalHead(s string) string {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || strings.ContainsAny(scheme, "/*") {
		return s
	}
	scheme = strings.ToLower(scheme)
	authority, path, slash := strings.Cut(rest, "/")
	authority = strings.ToLower(authority)
	if !slash {
		return scheme + "://" + authority
	}
	switch scheme {
	case "http":
		authority = strings.TrimSuffix(authority, ":80")
	case "https":
		authority = strings.TrimSuffix(authority, ":443")
	}
	return scheme + "://" + authority + "/" + path
}
