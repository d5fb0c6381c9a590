package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
)

func TestAdminCommands(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60, stale-while-revalidate=60")
		w.Header().Set("Surrogate-Key", "all page"+strings.ReplaceAll(r.URL.Path, "/", "-"))
		w.Header().Set("Vary", "Accept-Language")
		_, _ = io.WriteString(w, r.URL.Path)
	}))
	defer origin.Close()
	t.Setenv(tokenVariable, "s3cret")
	file := write(t, "listen: 127.0.0.1:0\nadmin: { listen: 127.0.0.1:0, token: '${"+tokenVariable+"}' }\norigins: { app: { url: "+origin.URL+" } }\nmemory: { max: 16MiB }\n")
	l := launch("--config", file)
	admin := l.out.await(t, `admin on (http://\S+)\n`)
	site := l.out.await(t, `listening on (http://\S+)\n`)
	for _, path := range []string{"/a", "/b", "/c"} {
		l.get(t, path)
	}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"explain", site + "/a"}, []string{"reader       served from the cache", "[RFC 9111 §4.2]", "tags         all page-a", "variants     1, by Accept-Language"}},
		{[]string{"explain", site + "/a", "-H", "Accept-Language: fr"}, []string{"waits for the origin", "vary-miss [RFC 9111 §4.1]"}},
		{[]string{"purge", "--tag", "page-a", "--tag", "page-b", "--dry-run"}, []string{"2 records would be reached (memory 2)"}},
		{[]string{"purge", "--url", site + "/a"}, []string{"1 record purged", site + "/a"}},
		{[]string{"purge", "--prefix", site + "/b", "--soft", "--refresh"}, []string{"1 record made stale", "1 URL being fetched afresh"}},
		{[]string{"refresh", site + "/a", "-H", "Accept-Language: fr"}, []string{"stored after ", "served from the cache"}},
		{[]string{"stats"}, []string{"memory: "}},
		{[]string{"purge", "--all", "--json"}, []string{`"records": 3`, `"memory": 3`}},
		{[]string{"purge", "--host", strings.TrimPrefix(site, "http://")}, []string{"0 records purged"}},
	} {
		status, out, errs := command(append(c.args, "--admin", admin)...)
		if status != 0 {
			t.Errorf("%v: status %d: %s", c.args, status, errs)
		}
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%v: no %q in:\n%s", c.args, want, out)
			}
		}
	}
	_, out, _ := command("stats", "--json", "--admin", admin)
	if !json.Valid([]byte(out)) {
		t.Errorf("no JSON: %s", out)
	}
	l.signals <- syscall.SIGTERM
	if status := <-l.status; status != 0 {
		t.Errorf("status %d:\n%s", status, l.errs)
	}
}

func TestAdminCommandMistakes(t *testing.T) {
	t.Setenv(tokenVariable, "")
	proxy := httptest.NewServer(http.NotFoundHandler())
	defer proxy.Close()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no URL":              {[]string{"explain"}, "accepts 1 arg(s)"},
		"field without colon": {[]string{"explain", "http://h/", "-H", "Accept"}, "write it as 'Name: value'"},
		"nobody there":        {[]string{"purge", "--all", "--admin", "127.0.0.1:1"}, "127.0.0.1:1"},
		"another server":      {[]string{"purge", "--all", "--admin", proxy.URL}, "is no admin listener"},
		"free port":           {[]string{"stats", "--config", write(t, good+"admin: { listen: 127.0.0.1:0 }\n")}, "say --admin URL"},
		"no admin listener":   {[]string{"stats", "--config", write(t, good)}, "add it, or say --admin URL"},
		"bad file":            {[]string{"stats", "--config", write(t, good+"admn: 1\n")}, ":2:1: admn: "},
	} {
		t.Run(name, func(t *testing.T) {
			status, _, errs := command(c.args...)
			if status != 1 || !strings.Contains(errs, c.want) {
				t.Errorf("status %d, %q; want 1 and %q", status, errs, c.want)
			}
		})
	}
}
