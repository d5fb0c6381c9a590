package policy

import (
	"net/http"
	"strings"
	"testing"
)

// FuzzSetPlain compares the short way with the general one, for what may take it.
func FuzzSetPlain(f *testing.F) {
	for _, s := range []struct{ host, target string }{
		{"a.test", "/"},
		{"A.test:80", "/a/b?c=d&e"},
		{"a.test:8080", "/..a/b"},
		{"a.test:0080", "/a/./b"},
		{"[::1]:80", "/a//b?"},
		{"a_b.test", "/a;b=1,2"},
		{"a.test:99999", "/.well-known/x"},
		{"127.0.0.1", "/?a?b"},
		{":8080", "/"},
		{"a.test:", "/"},
		{"a.test:443", "/"},
		{"a.test:1:2", "/"},
		{"127.0.0.1:65535", "/"},
		{"127.0.0.1:65536", "/"},
	} {
		f.Add(s.host, s.target)
	}
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,;=:@/?"
	f.Fuzz(func(t *testing.T, host, target string) {
		if !strings.HasPrefix(target, "/") || strings.Trim(target, plain) != "" {
			t.Skip()
		}
		path, query, _ := strings.Cut(target, "?")
		var got Target
		ok := got.SetPlain(http.MethodGet, "http", host, path, query)
		want, err := newTarget(http.MethodGet, "http", host, path, query, target)
		if ok && (err != nil || got != want) {
			t.Errorf("%q %q: %+v, want %+v, %v", host, target, got, want, err)
		}
		if !ok && err == nil && want.Path == path && want.Authority == host && !strings.Contains(path, "/.") && host != "" {
			t.Errorf("%q %q: refused", host, target)
		}
	})
}
