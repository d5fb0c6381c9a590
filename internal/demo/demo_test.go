package demo

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func get(t *testing.T, url string) (status int, body, cacheStatus string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b), resp.Header.Get("Cache-Status")
}

// What the demo tells people to do works.
func TestDemo(t *testing.T) {
	var out strings.Builder
	d, err := Start(Options{Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Out: &out})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := d.Drain(ctx); err != nil {
			t.Error(err)
		}
	}()
	proxy := d.URLs()[0]
	for _, want := range []string{
		"listening on " + proxy + "\n", "admin on " + d.AdminURL() + "\n", "ready\n", "curl -i " + proxy + "/news", d.OriginURL() + "/_origin/fail",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, out.String())
		}
	}
	_, first, _ := get(t, proxy+"/tagged")
	_, second, cacheStatus := get(t, proxy+"/tagged")
	if first != second || !strings.Contains(cacheStatus, "hit") {
		t.Errorf("first %q, second %q, %q", first, second, cacheStatus)
	}
	get(t, d.OriginURL()+"/_origin/fail")
	if status, _, _ := get(t, proxy+"/bare"); status != http.StatusServiceUnavailable {
		t.Errorf("failing origin: %d", status)
	}
	get(t, d.OriginURL()+"/_origin/recover")
	if status, _, _ := get(t, d.AdminURL()+"/readyz"); status != http.StatusOK {
		t.Errorf("admin: %d", status)
	}
}

func TestTakenDefaultsAreReplaced(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	taken := ln.Addr().String()
	if got := orFree("", taken); got != "127.0.0.1:0" {
		t.Errorf("a taken default gives %s", got)
	}
	if got := orFree(taken, "127.0.0.1:1"); got != taken {
		t.Errorf("a chosen address gives %s", got)
	}
	if _, err := Start(Options{Listen: taken, Admin: "127.0.0.1:0"}); err == nil {
		t.Error("a taken address that the user chose is no error")
	}
}
